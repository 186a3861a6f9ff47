// The viewer: which sample, field, time and picture is shown, and everything that changes it.
import {Camera, WHOLE} from "./camera.js";
import {Conditions} from "./conditions.js";
import {fieldData} from "./data.js";
import {decodeOnce, rowOf} from "./decode.js";
import {button, choice, h, section, toggle} from "./dom.js";
import {FieldPictures} from "./fields.js";
import {count, number} from "./format.js";
import {FieldLines} from "./lines.js";
import {Motion} from "./motion.js";
import {looks, spaceTimePicture} from "./picture.js";
import {Player} from "./player.js";
import {Reading} from "./reading.js";
import {ENOUGH} from "./thinning.js";

export class Viewer {
    #wanted = 0; // the latest choice; an older one that is decoded later is dropped

    constructor(content) {
        this.content = content;
        this.state = {sample: 0, field: 0, shared: true, look: 0, layer: 0, overlay: false};
        this.motion = new Motion();
        const timed = content.times.length > 1;
        this.player = new Player(content.times, content.given, content.trained_until, {
            change: () => {
                this.motion.touch();
                this.#show();
            },
            playing: (playing) => this.motion.hold(playing),
        });
        this.reading = new Reading(content.axes, timed, (index) => this.read({index, frame: this.player.frame}));
        this.conditions = new Conditions(content);
        this.error = h("p", {class: "frame-error"});
        this.status = h("p", {class: "status", role: "status", "aria-live": "polite"});
        const stage = h("div");
        const lines = h("div", {class: "lines"});
        this.#open(stage, lines, timed);
        const keys = `${timed ? "Space plays, arrows step in time, " : ""}+ and − zoom, 0 resets, Shift and arrows move.`;
        this.region = h("div", {class: "region", tabindex: 0, role: "group", "aria-label": `Pictures. ${keys}`},
            content.dim === 1 ? lines : null, this.pictures ? stage : null);
        this.node = section("viewer", "Truth, prediction and error");
        this.node.append(h("div", {class: "card"}, this.#controls(), this.region, timed ? this.player.node : null,
            h("div", {class: "below"}, this.error, this.status), this.conditions.node, this.reading.node,
            h("p", {class: "hint"}, keys)));
        this.node.addEventListener("keydown", (event) => this.#key(event));
        this.ready = this.#load();
    }

    #open(stage, lines, timed) {
        const {content} = this;
        if (content.dim > 1 || timed) {
            this.pictures = new FieldPictures(stage, this.motion, (point) => this.read(point));
            if (this.pictures.stage) this.pictures.stage.afterwards = () => this.#say();
        }
        this.camera = this.pictures?.stage?.camera ?? new Camera();
        if (content.dim === 1) {
            this.lines = new FieldLines(lines, content.axes, this.camera, (index) => this.read({index, frame: this.player.frame}));
        }
    }

    #controls() {
        const {content, state} = this;
        const change = (name) => (value) => {
            state[name] = value;
            return this.#load();
        };
        const sample = ({name, rank, error}) => [name, rank, `error ${number(error)}`].filter(Boolean).join(" · ");
        this.choices = {
            sample: choice("Sample", content.samples.map(sample), change("sample")),
            field: choice("Field", content.fields.map(({name}) => name), change("field")),
            shared: choice("Color scale", ["shared", "own, at this time"], (i) => change("shared")(i === 0)),
        };
        if (content.times.length < 2) this.choices.shared.control.options[1].textContent = "own per panel";
        if (content.dim === 3) this.choices.look = choice("Drawn as", this.#looks().map(({name}) => name), change("look"));
        const parts = Object.values(this.choices).map(({node}) => node);
        if (content.layers.length) {
            const box = toggle("Query points", false, (on) => this.#overlay({overlay: on}));
            const layer = choice("of layer", content.layers.map(({name}) => name), (i) => this.#overlay({layer: i}));
            this.choices.overlay = box;
            parts.push(h("div", {class: "together"}, box.node, layer.node));
        }
        this.all = button("All", () => this.camera.show(WHOLE), {"aria-label": "Show the whole domain", hidden: true});
        const zoom = h("div", {class: "buttons", role: "group", "aria-label": "Zoom"},
            button("+", () => this.zoom(1.4), {"aria-label": "Zoom in"}),
            button("−", () => this.zoom(1 / 1.4), {"aria-label": "Zoom out"}),
            this.all,
            button("Reset", () => this.camera.reset(), {"aria-label": "Reset the view"}));
        return h("div", {class: "controls"}, parts, zoom);
    }

    #looks(mesh = this.content.meshes[this.content.samples[0].mesh]) {
        return looks(mesh, this.content.axes);
    }

    /** Decode what is chosen and show it. */
    async #load() {
        const mine = ++this.#wanted;
        const {content, state} = this;
        const sample = content.samples[state.sample];
        const mesh = content.meshes[sample.mesh];
        const options = this.#looks(mesh);
        const look = options[Math.min(state.look, options.length - 1)];
        const make = content.dim === 1 ? () => spaceTimePicture(mesh, content.times, content.axes) : look.picture;
        const late = setTimeout(() => (this.status.textContent = "decoding …"), 150);
        const [data, points, picture] = await Promise.all([fieldData(sample, state.field), decodeOnce(mesh.points),
            this.pictures ? make() : null]);
        clearTimeout(late);
        if (mine !== this.#wanted) return;
        const moved = this.picture !== picture && this.picture;
        Object.assign(this, {data, mesh, picture, points: points.raw});
        this.reading.setCount(data.points);
        this.conditions.show(sample, this.player.frame);
        if (moved || (this.marked && this.marked.index >= data.points)) {
            this.marked = null;
            this.reading.clear();
        }
        if (moved && content.dim === 3) this.camera.reset();
        if (this.pictures) this.pictures.kept = look.kept;
        this.all.hidden = (picture?.home ?? WHOLE) === WHOLE;
        await this.#show();
        await this.#overlay({});
        if (this.pictures?.stage) this.pictures.stage.draw();
        this.#say();
    }

    async #show() {
        if (!this.data) return;
        const {content, state, data, picture, mesh} = this;
        const frame = this.player.frame, field = content.fields[state.field];
        if (this.pictures) this.pictures.show({picture, data, frame, field, times: content.times, shared: state.shared});
        if (this.lines) await this.lines.show({mesh, data, frame, field, shared: state.shared});
        const error = content.samples[state.sample].frame_errors?.[state.field]?.[frame];
        this.error.textContent = error == null ? ""
            : `${content.headline.metric} of ${field.name} ${content.times.length > 1 ? "at this time " : ""}${number(error)}`;
        this.conditions.at(frame);
        if (this.marked) this.read({...this.marked, frame: this.player.frame});
    }

    /** Read a stored point at a frame: its values in all panels, and a mark on it. */
    read({index, frame}) {
        const {content, data, points} = this;
        if (!data || !(index < data.points)) return;
        const x = Array.from({length: content.dim}, (_, axis) => points[index * content.dim + axis]);
        this.marked = {index, frame, at: x};
        this.reading.show({index, x, time: content.times[frame], ...data.at(frame, index)}, content.fields[this.state.field].unit);
        this.#mark();
    }

    async #overlay(change) {
        Object.assign(this.state, change);
        this.queries = null;
        if (this.state.overlay) {
            const path = await decodeOnce(this.content.layers[this.state.layer].path);
            const [snapshots, queries, dim] = path.shape;
            const last = rowOf(path, snapshots - 1);
            this.queries = Array.from({length: queries}, (_, i) => Array.from(last.subarray(i * dim, (i + 1) * dim)));
        }
        this.#mark();
    }

    #mark() {
        this.pictures?.mark(this.marked ?? null, this.queries);
        this.lines?.mark(this.marked ?? null, this.queries);
    }

    zoom(factor) {
        const lens = this.pictures?.stage ? this.pictures.stage.lens() : this.camera.lens({dim: 2, fill: true, extent: [1, 1, 0]}, 2, 2);
        this.camera.zoomAt(factor, lens.width / 2, lens.height / 2, lens);
    }

    get drawn() {
        return this.pictures?.stage?.drawn ?? 0;
    }

    /** How many points are drawn, in words. */
    #say() {
        if (!this.data) return;
        const stored = this.picture?.count ?? this.data.points;
        const thin = this.drawn && this.drawn < stored;
        const parts = [];
        if (thin) parts.push(`drawing ${count(this.drawn)} of ${count(stored)} points while moving`);
        else if (this.picture?.whole) parts.push(`${count(this.data.points)} points, ${this.data.frames} times`);
        else parts.push(stored > ENOUGH ? `all ${count(stored)} points drawn` : `${count(stored)} points`);
        const {total} = this.mesh;
        if (total > this.data.points) parts.push(`the mesh has ${count(total)}, of which ${count(this.data.points)} are stored`);
        if (this.picture?.stretched) parts.push("axes not to one scale");
        const text = parts.join("; ");
        if (this.status.textContent !== text) this.status.textContent = text;
    }

    #key(event) {
        if (event.ctrlKey || event.altKey || event.metaKey) return;
        const control = event.target.closest("input, select, button, summary");
        const arrows = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
        const lens = () => this.pictures?.stage?.lens();
        if (event.key === " " && !control) this.player.toggle();
        else if (arrows && !control && event.shiftKey) {
            if (this.picture?.dim === 3) this.camera.orbitBy(15 * arrows[0], 15 * arrows[1]);
            else if (lens()) this.camera.panBy(-30 * arrows[0], -30 * arrows[1], lens());
        } else if (arrows && !control && this.content.times.length > 1) this.player.step(arrows[0] || -arrows[1]);
        else if ((event.key === "+" || event.key === "=") && control?.type !== "number") this.zoom(1.4);
        else if (event.key === "-" && control?.type !== "number") this.zoom(1 / 1.4);
        else if (event.key === "0" && control?.type !== "number") this.camera.reset();
        else return;
        event.preventDefault();
    }
}
