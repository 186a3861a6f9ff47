// Influence of each latent token: how much the decoded field changes where, when noise is put on that token alone.
import {chart} from "./charts.js";
import {paddedRange} from "./colors.js";
import {decodeOnce, rowOf} from "./decode.js";
import {button, choice, h, section, whole} from "./dom.js";
import {count, withUnit} from "./format.js";
import {drawDot, drawMarker} from "./overlay.js";
import {looks} from "./picture.js";
import {Stage} from "./stage.js";
import {ink} from "./theme.js";

export function tokensSection(content) {
    const {tokens} = content;
    if (!tokens) return null;
    const sample = content.samples[tokens.sample];
    const node = section("tokens", "Influence of each token",
        `|Change| of the field of ${sample ? sample.name : "one sample"} when Gaussian noise is put on one token of the latent state` +
        `${tokens.thinned ? `, at ${count(tokens.thinned)} points` : ""}. ` +
        `Click ${content.dim > 1 ? "near a token" : "in the chart"} or choose its number.`);
    const card = h("div", {class: "card"});
    node.append(card);
    return {node, build: () => new Tokens(content, card).build()};
}

class Tokens {
    constructor(content, card) {
        Object.assign(this, {content, card, tokens: content.tokens, mesh: content.meshes[content.tokens.mesh]});
        this.state = {token: 0, field: 0, look: 0, own: false};
        this.later = this.tokens.fields.some(({last}) => last);
        this.titles = this.later ? ["Decoded at once", "After the last frame"] : ["Decoded at once"];
        this.looks = content.dim > 1 ? looks(this.mesh, content.axes) : [];
    }

    async build() {
        const {dim} = this.content;
        const {raw, shape} = await decodeOnce(this.tokens.positions);
        this.positions = Array.from({length: shape[0]}, (_, i) => Array.from(raw.subarray(i * dim, (i + 1) * dim)));
        this.place = h("div", {class: this.later ? "double" : "single"});
        this.card.append(this.#controls(), this.place);
        if (dim > 1) {
            this.stage = Stage.open(this.place, this.titles, {click: (x, y) => this.show({token: this.#under(x, y)})});
            if (!this.stage) return;
            this.stage.overlay = (context, lens) => this.#drawOver(context, lens);
        }
        await this.show({});
    }

    #controls() {
        const {content} = this;
        const {node, control} = whole("Token", this.positions.length, (token) => this.show({token}));
        this.input = control;
        const step = (by) => () => this.show({token: (this.state.token + by + this.positions.length) % this.positions.length});
        return h("div", {class: "controls"}, node,
            h("div", {class: "buttons"}, button("Previous", step(-1)), button("Next", step(1))),
            content.fields.length > 1 ? choice("Field", content.fields.map(({name}) => name), (field) => this.show({field})).node : null,
            this.looks.length > 1 ? choice("Drawn as", this.looks.map(({name}) => name), (look) => this.show({look})).node : null,
            choice("Scale", ["shared by all tokens", "own per token"], (i) => this.show({own: i === 1})).node);
    }

    /** The token whose place on the screen is nearest. */
    #under(x, y) {
        const lens = this.stage.lens();
        const away = this.positions.map((at) => {
            const [px, py] = lens.place(this.stage.picture.position(this.#onto(at)));
            return Math.hypot(px - x, py - y);
        });
        return away.indexOf(Math.min(...away));
    }

    #onto(at) {
        const kept = this.looks[this.state.look]?.kept;
        return kept ? kept.map((axis) => at[axis]) : at;
    }

    async show(change) {
        Object.assign(this.state, change);
        const {token, field, look} = this.state;
        if (this.input.valueAsNumber !== token) this.input.value = token;
        const {at_once, last} = this.tokens.fields[field];
        const arrays = await Promise.all([at_once, last].filter(Boolean).map(decodeOnce));
        const channels = arrays.map((array) => ({...array, raw: rowOf(array, token)}));
        if (this.content.dim === 1) return this.#draw1d(channels);
        if (!this.stage) return;
        if ("look" in change) this.stage.camera.reset();
        this.stage.setPicture(await this.looks[look].picture());
        this.stage.setChannels(channels[0], channels[1] ?? null);
        const {name, unit} = this.content.fields[field];
        channels.forEach((channel, i) => this.stage.setPanel(i, {weight: i ? [0, 1] : [1, 0], map: "error",
            range: this.#range(channel), label: `|change| of ${withUnit(name, unit)}`}));
        this.stage.draw();
    }

    #range({raw, low, span, most}) {
        const top = this.state.own ? low + (span * raw.reduce((a, b) => Math.max(a, b), 0)) / most : low + span;
        return paddedRange(0, top, false);
    }

    async #draw1d(channels) {
        const points = (await decodeOnce(this.mesh.points)).raw;
        const order = [...points.keys()].sort((a, b) => points[a] - points[b]);
        const values = channels.map(({raw, low, span, most}) => order.map((i) => low + (span * raw[i]) / most));
        const {name, unit} = this.content.fields[this.state.field];
        const top = Math.max(...channels.map((channel) => this.#range(channel)[1]));
        this.place.replaceChildren();
        const plot = chart(this.place, {
            x: this.content.axes[0], y: `|change| of ${withUnit(name, unit)}`, data: [order.map((i) => points[i]), ...values],
            series: this.titles.map((title, i) => ({label: title.toLowerCase(), ...(i ? {color: "error", dash: [6, 4]} : {color: "accent"})})),
            marks: [{x: this.positions[this.state.token][0], text: `token ${this.state.token}`}],
            extra: {scales: {y: {range: () => [0, 1.05 * top]}}}});
        plot.over.addEventListener("click", (event) => {
            const away = this.positions.map(([x]) => Math.abs(x - plot.posToVal(event.offsetX, "x")));
            this.show({token: away.indexOf(Math.min(...away))});
        });
    }

    #drawOver(context, lens) {
        const place = (at) => lens.place(this.stage.picture.position(this.#onto(at)));
        const small = this.positions.length > 300 ? 1.8 : 2.6;
        for (const at of this.positions) drawDot(context, ...place(at), small, {fill: ink("card"), edge: ink("ink")});
        const [x, y] = place(this.positions[this.state.token]);
        drawMarker(context, x, y);
        drawDot(context, x, y, 3.2);
    }
}
