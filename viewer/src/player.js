// Time: the slider, play and pause, and the words beside them.
import {button, h} from "./dom.js";
import {number} from "./format.js";

export class Player {
    #next = 0;

    /** `change(frame)` when the frame changes, by whom ever; `playing(bool)` when playing starts or ends. */
    constructor(times, given, trainedUntil, {change, playing}) {
        [this.times, this.given, this.trainedUntil] = [times, given, trainedUntil];
        [this.change, this.announce] = [change, playing];
        this.frame = times.length - 1; // where a prediction has come farthest: the first frame is given
        this.playing = false;
        this.interval = Math.min(400, Math.max(70, 6000 / times.length)); // a round takes about six seconds
        this.slider = h("input", {type: "range", min: 0, max: times.length - 1, step: 1, value: this.frame, "aria-label": "Time",
            oninput: () => this.go(Number(this.slider.value))});
        this.button = button("Play", () => this.toggle(), {class: "play", "aria-label": "Play"});
        this.label = h("output", {class: "time"});
        this.badge = h("span", {class: "badge"});
        this.node = h("div", {class: "player"}, this.button, this.slider, h("div", {class: "when"}, this.label, this.badge));
        this.#say();
    }

    go(frame) {
        const count = this.times.length;
        frame = Math.min(count - 1, Math.max(0, frame));
        if (frame === this.frame) return;
        this.frame = frame;
        this.slider.value = frame;
        this.#say();
        this.change(frame);
    }

    step(by) {
        this.pause();
        this.go(this.frame + by);
    }

    toggle() {
        if (this.playing) this.pause();
        else this.play();
    }

    play() {
        if (this.playing || this.times.length < 2) return;
        this.#set(true);
        this.#next = performance.now() + this.interval;
        requestAnimationFrame((now) => this.#tick(now));
    }

    pause() {
        if (this.playing) this.#set(false);
    }

    #set(playing) {
        this.playing = playing;
        const word = playing ? "Pause" : "Play";
        this.button.textContent = word;
        this.button.setAttribute("aria-label", word);
        this.announce(playing);
    }

    #tick(now) {
        if (!this.playing) return;
        if (now >= this.#next) {
            const last = this.frame === this.times.length - 1;
            this.go(last ? 0 : this.frame + 1);
            const rests = this.frame === this.times.length - 1 ? 3 : 1; // the end stays a little
            this.#next = Math.max(now, this.#next + rests * this.interval);
        }
        requestAnimationFrame((later) => this.#tick(later));
    }

    #say() {
        const time = this.times[this.frame];
        this.label.textContent = `t = ${number(time)}, frame ${this.frame + 1} of ${this.times.length}`;
        this.slider.setAttribute("aria-valuetext", `t = ${number(time)}`);
        const beyond = this.trainedUntil !== null && time > this.trainedUntil * (1 + 1e-9) + 1e-12;
        this.badge.textContent = this.frame < this.given ? "given, reconstructed" : beyond ? "beyond the trained horizon" : "";
        this.badge.hidden = !this.badge.textContent;
    }
}
