// A stage: panels side by side that show one picture through one camera, drawn by one painter behind them all.
import {Camera} from "./camera.js";
import {ColorBar} from "./colorbar.js";
import {h, sharp, watchWidth} from "./dom.js";
import {listen} from "./gestures.js";
import {drawBox, drawFrame, margins} from "./overlay.js";
import {Painter} from "./painter.js";
import {onTheme} from "./theme.js";

export class Stage {
    #scheduled = false;

    /** `titles`: one per panel; `motion` says when to thin; null if there is no WebGL (then say so in `container`). */
    static open(container, titles, options) {
        const painter = Painter.open();
        if (painter) return new Stage(container, titles, painter, options);
        container.append(h("p", {class: "notice", role: "alert"},
            "This browser offers no WebGL 2, which the pictures here need. The rest of the report works without it."));
        return null;
    }

    constructor(container, titles, painter, {motion = null, hover = () => {}, click = () => {}} = {}) {
        Object.assign(this, {container, painter, motion, camera: new Camera()});
        this.overlay = () => {}; // (context, lens, panel) draws over the picture
        this.afterwards = () => {};
        this.drawn = 0; // points per panel in the last drawing
        this.drawings = 0;
        this.panels = titles.map(panelWith);
        container.classList.add("stage");
        container.append(painter.canvas, ...this.panels.map((panel) => panel.figure));
        this.panels.forEach((panel, i) => listen(panel.view, {
            camera: this.camera,
            area: () => ({lens: this.lens(), ...margins(this.picture)}),
            orbits: () => this.picture?.dim === 3,
            hover: (x, y) => this.picture && hover(x, y, i),
            click: (x, y) => this.picture && click(x, y, i),
        }));
        this.camera.onChange(() => {
            this.motion?.touch();
            this.invalidate();
        });
        motion?.onChange(() => this.invalidate());
        onTheme(() => this.invalidate());
        watchWidth(container, () => this.invalidate());
        window.addEventListener("beforeprint", () => this.draw());
    }

    /** The picture to draw from now on; values have to be set anew. */
    setPicture(picture) {
        if (this.picture === picture) return;
        this.picture = picture;
        this.painter.setPicture(picture);
        this.camera.setHome(picture.home);
        this.invalidate();
    }

    /** Two channels of quantized values, see Painter. */
    setChannels(first, second) {
        this.painter.setChannels(first, second);
        this.invalidate();
    }

    /** What panel i shows: weights of the two channels, the range and map of its colors, and what they measure. */
    setPanel(i, {weight, absolute = false, range, map, label}) {
        Object.assign(this.panels[i], {weight, absolute, range, map, label});
        this.invalidate();
    }

    lens() {
        const {left, right, top, bottom} = margins(this.picture);
        const {clientWidth, clientHeight} = this.panels[0].view;
        return this.camera.lens(this.picture, clientWidth - left - right, clientHeight - top - bottom);
    }

    /** Draw once, soon. */
    invalidate() {
        if (this.#scheduled) return;
        this.#scheduled = true;
        requestAnimationFrame(() => this.draw());
    }

    #layout() {
        const [ex, ey] = this.picture.extent;
        const aspect = this.picture.dim === 3 ? 1 : this.picture.fill ? 1.25 : ex / ey;
        this.container.classList.toggle("wide", aspect > 2.4);
        const {left, right, top, bottom} = margins(this.picture);
        const width = this.panels[0].view.clientWidth - left - right;
        const most = Math.max(200, Math.min(520, 0.72 * window.innerHeight));
        const height = Math.round(Math.min(most, Math.max(110, width / aspect))) + top + bottom;
        for (const {view} of this.panels) if (view.style.height !== `${height}px`) view.style.height = `${height}px`;
    }

    draw() {
        this.#scheduled = false;
        if (!this.picture || !this.container.clientWidth) return;
        this.#layout();
        const lens = this.lens(), room = margins(this.picture);
        const box = this.container.getBoundingClientRect();
        const thinned = Boolean(this.motion?.moving && this.picture.thin);
        this.painter.resize(box.width, box.height, Math.min(window.devicePixelRatio || 1, 2));
        this.painter.paint(lens, thinned, this.panels.map((panel) => {
            const view = panel.view.getBoundingClientRect();
            return {...panel, x: view.left - box.left + room.left, y: box.bottom - view.bottom + room.bottom};
        }));
        this.drawn = thinned ? this.picture.thin.count : this.picture.count;
        this.#drawOver(lens, room);
        this.drawings++;
        this.afterwards();
    }

    #drawOver(lens, room) {
        this.panels.forEach((panel, i) => {
            const context = sharp(panel.overlay, panel.view.clientWidth, panel.view.clientHeight);
            context.translate(room.left, room.top);
            (this.picture.dim === 3 ? drawBox : drawFrame)(context, this.picture, lens);
            context.save();
            context.beginPath();
            context.rect(0, 0, lens.width, lens.height);
            context.clip();
            this.overlay(context, lens, i);
            context.restore();
            panel.bar.draw(panel.map, panel.range, panel.label);
        });
    }

    /** The point of the picture nearest to pixel (px, py) of the area. */
    nearest(px, py) {
        const lens = this.lens();
        if (this.picture.dim === 2) return this.picture.search.nearest(...lens.under(px, py));
        const {positions, count} = this.picture;
        let best = -1, least = Infinity;
        for (let i = 0; i < count; i++) {
            const point = [positions[3 * i], positions[3 * i + 1], positions[3 * i + 2]];
            const [x, y] = lens.place(point);
            // a disc is as good as hit within a few pixels; among those the one in front counts
            const distance = Math.max(0, Math.hypot(x - px, y - py) - 4) - 2 * lens.depth(point);
            if (distance < least) [best, least] = [i, distance];
        }
        return best;
    }
}

function panelWith(title) {
    const overlay = h("canvas", {class: "over"});
    const view = h("div", {class: "view"}, overlay);
    const bar = new ColorBar();
    const figure = h("figure", {class: "panel"}, h("figcaption", {}, title), view, bar.node);
    return {figure, view, overlay, bar};
}
