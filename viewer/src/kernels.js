// Kernel weights at the real neighbors of a query: one small picture per filter.
import {ColorBar} from "./colorbar.js";
import {colorAt} from "./colors.js";
import {decodeOnce} from "./decode.js";
import {choice, h, section, sharp, toggle, watchWidth} from "./dom.js";
import {number} from "./format.js";
import {planeName, planeOf, planesOf} from "./plane.js";
import {ink, onTheme} from "./theme.js";

const MOST = 64; // filters shown

export function kernelsSection(content) {
    if (!content.kernels.length) return null;
    const node = section("kernels", "Kernel weights",
        "Weights of each filter of the first input channel (modulated kernel times distance weight) at the neighbors of a query.");
    const card = h("div", {class: "card"});
    node.append(card);
    return {node, build: () => new Kernels(content, card).show({})};
}

class Kernels {
    constructor(content, card) {
        this.content = content;
        this.state = {layer: 0, query: 0, absolute: false, own: false, plane: 0};
        this.planes = planesOf(content.axes);
        this.layer = choice("Layer", content.kernels.map(({name}) => name), (layer) => this.show({layer}));
        this.query = choice("Query", [], (query) => this.show({query}));
        const controls = h("div", {class: "controls"}, this.layer.node, this.query.node,
            choice("Weights", ["signed", "absolute"], (i) => this.show({absolute: i === 1})).node,
            this.planes.length > 1 ? choice("Plane", this.planes.map((each) => planeName(content.axes, each)), (plane) => this.show({plane})).node
                : null,
            toggle("each filter on its own scale", false, (own) => this.show({own})).node);
        this.grid = h("div", {class: "kernels"});
        this.bar = new ColorBar();
        card.append(controls, this.grid, h("div", {class: "single bar-below"}, this.bar.node));
        watchWidth(this.grid, () => this.#draw());
        onTheme(() => this.#draw());
    }

    #fillQueries() {
        const {axes, kernels} = this.content;
        const texts = kernels[this.state.layer].queries.map(({at}, i) =>
            `${i + 1} at ${axes.map((axis, k) => `${axis} = ${number(at[k])}`).join(", ")}`);
        this.query.control.replaceChildren(...texts.map((text, i) => h("option", {value: i}, text)));
        this.state.query = Math.min(this.state.query, texts.length - 1);
        this.query.control.selectedIndex = this.state.query;
    }

    async show(change) {
        Object.assign(this.state, change);
        if (this.filled !== this.state.layer) this.#fillQueries();
        this.filled = this.state.layer;
        const query = this.content.kernels[this.state.layer].queries[this.state.query];
        const [points, weights] = await Promise.all([decodeOnce(query.points), decodeOnce(query.weights)]);
        const [neighbors, filters] = weights.shape;
        Object.assign(this, {at: query.at, neighbors, filters, points: this.#around(points.raw, query.at),
            weight: (i, filter) => weights.low + (weights.raw[i * filters + filter] / 65535) * weights.span});
        const shown = Math.min(filters, MOST);
        if (this.grid.children.length !== shown) {
            this.grid.replaceChildren(...Array.from({length: shown}, (_, i) => h("figure", {},
                h("canvas", {role: "img", "aria-label": `weights of filter ${i + 1}`}), h("figcaption", {}, String(i + 1)))));
        }
        this.#draw();
    }

    /** Neighbors beside their query, also across a periodic boundary. */
    #around(raw, at) {
        const {dim, lower, upper, periodic} = this.content;
        return Float64Array.from(raw, (x, k) => {
            const axis = k % dim, period = upper[axis] - lower[axis];
            return periodic[axis] ? x - period * Math.round((x - at[axis]) / period) : x;
        });
    }

    #largest(filters) {
        let most = 0;
        for (const filter of filters) for (let i = 0; i < this.neighbors; i++) most = Math.max(most, Math.abs(this.weight(i, filter)));
        return most || 1;
    }

    #draw() {
        if (!this.points) return;
        const {absolute, own} = this.state;
        const all = [...Array(this.grid.children.length).keys()];
        const most = this.#largest(all);
        const map = absolute ? "error" : "diverging";
        all.forEach((filter) => {
            const canvas = this.grid.children[filter].firstChild;
            const size = canvas.clientWidth, height = this.content.dim === 1 ? Math.round(0.75 * size) : size;
            const context = sharp(canvas, size, height);
            const top = own ? this.#largest([filter]) : most;
            if (this.content.dim === 1) this.#stems(context, filter, top, size, height);
            else this.#cloud(context, filter, top, map, size);
        });
        const words = absolute ? "|weight|" : "weight";
        if (own) this.bar.draw(map, absolute ? [0, 1] : [-1, 1], `${words}, relative to the largest of its filter`);
        else this.bar.draw(map, absolute ? [0, most] : [-most, most], words);
        this.bar.node.parentElement.hidden = this.content.dim === 1;
    }

    #cloud(context, filter, top, map, size) {
        const {dim} = this.content, [a, b] = this.planes[this.state.plane];
        const x = (i) => this.points[i * dim + a], y = (i) => this.points[i * dim + b];
        const reach = Math.max(1e-12, ...Array.from({length: this.neighbors}, (_, i) =>
            Math.max(Math.abs(x(i) - this.at[a]), Math.abs(y(i) - this.at[b])))) * 1.08;
        const corner = (side) => [this.at[a] + side * reach, this.at[b] + side * reach];
        const {place, scale} = planeOf(corner(-1), corner(1), size, size, {pad: 3});
        const radius = Math.min(7, Math.max(1.3, 0.55 * ((2 * reach * scale[0]) / Math.sqrt(this.neighbors))));
        for (let i = 0; i < this.neighbors; i++) {
            const value = this.weight(i, filter) / top;
            context.fillStyle = colorAt(map, this.state.absolute ? Math.abs(value) : 0.5 + 0.5 * value);
            context.beginPath();
            context.arc(...place(x(i), y(i)), radius, 0, 2 * Math.PI);
            context.fill();
        }
        const [cx, cy] = place(this.at[a], this.at[b]);
        for (const [color, width] of [[ink("card"), 3], [ink("ink"), 1.2]]) {
            context.strokeStyle = color;
            context.lineWidth = width;
            context.beginPath();
            context.moveTo(cx - 4, cy);
            context.lineTo(cx + 4, cy);
            context.moveTo(cx, cy - 4);
            context.lineTo(cx, cy + 4);
            context.stroke();
        }
    }

    #stems(context, filter, top, width, height) {
        const reach = Math.max(1e-12, ...this.points.map((x) => Math.abs(x - this.at[0]))) * 1.05;
        const low = this.state.absolute ? 0 : -top;
        const {place} = planeOf([this.at[0] - reach, low], [this.at[0] + reach, top], width, height, {pad: 5, fill: true});
        context.strokeStyle = ink("line-strong");
        context.beginPath();
        context.moveTo(...place(this.at[0] - reach, 0));
        context.lineTo(...place(this.at[0] + reach, 0));
        context.moveTo(...place(this.at[0], low));
        context.lineTo(...place(this.at[0], top));
        context.stroke();
        context.strokeStyle = context.fillStyle = ink("accent");
        for (let i = 0; i < this.neighbors; i++) {
            const value = this.state.absolute ? Math.abs(this.weight(i, filter)) : this.weight(i, filter);
            context.beginPath();
            context.moveTo(...place(this.points[i], 0));
            context.lineTo(...place(this.points[i], value));
            context.stroke();
            context.beginPath();
            context.arc(...place(this.points[i], value), 1.8, 0, 2 * Math.PI);
            context.fill();
        }
    }
}
