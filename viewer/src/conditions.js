// What the sample shown had beside its first frame: its parameters, its signals at the time shown, and what is prescribed.
import {h, svg} from "./dom.js";
import {number, withUnit} from "./format.js";

const ROOM = 0.08; // of a curve's range, above and below it

export class Conditions {
    #marks = [];

    /** `conditions` as in the content, or null; `node` is null where there is nothing to show. */
    constructor({conditions, samples, times}) {
        this.node = null;
        if (!conditions) return;
        [this.names, this.times] = [conditions, times];
        this.ranges = conditions.signals.map((signal, i) => rangeOf(samples.flatMap(({signals}) => this.#shown(signals, i))));
        this.list = h("dl");
        const words = conditions.prescribed.map(({field, where}) => `${field} at ${where}`).join("; ");
        this.node = h("div", {class: "conditions", role: "group", "aria-label": "Conditions of the sample"}, this.list,
            words && h("p", {}, h("span", {class: "name"}, "prescribed, not predicted: "), words));
    }

    /** Another sample, at a frame. */
    show({parameters, signals}, frame) {
        if (!this.node) return;
        this.signals = signals;
        this.#marks = [];
        this.list.replaceChildren(
            ...this.names.parameters.map((name, i) => pair(name, "parameter", h("span", {}, valueIn(parameters[i], name.unit)))),
            ...this.names.signals.map((name, i) => this.#signal(name, i)));
        this.at(frame);
    }

    #signal(name, i) {
        const value = h("span"), dot = h("span", {class: "dot"}), rule = h("span", {class: "rule"});
        const shown = this.#shown(this.signals, i), [low, high] = rangeOf(shown);
        const words = `Curve of ${withUnit(name.name, name.unit)}, ${number(low)} to ${number(high)}`;
        const points = shown.map(([time, known]) => `${this.#x(time)},${this.#y(i, known)}`).join(" ");
        const curve = h("span", {class: "curve", role: "img", "aria-label": words},
            svg("svg", {viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true"}, svg("polyline", {points})), rule, dot);
        this.#marks.push({value, dot, rule, unit: name.unit, i});
        return pair(name, "signal", value, curve);
    }

    /** [time, value] from the first frame to the last. */
    #shown({times, values}, i) {
        const [from, to] = [this.times[0], this.times.at(-1)];
        const within = times.map((time, k) => [time, values[i][k]]).filter(([time]) => time > from && time < to);
        const ends = [from, to].map((time) => [time, valueAt(times, values[i], time)]);
        return [ends[0], ...within, ends[1]].filter(([, value]) => value !== null);
    }

    #x = (time) => (time - this.times[0]) / (this.times.at(-1) - this.times[0] || 1);

    #y(i, value) {
        const [low, high] = this.ranges[i];
        return 1 - ROOM - (1 - 2 * ROOM) * (high > low ? (value - low) / (high - low) : 0.5);
    }

    /** Another frame of the same sample. */
    at(frame) {
        if (!this.node) return;
        const time = this.times[frame];
        for (const {value, dot, rule, unit, i} of this.#marks) {
            const found = valueAt(this.signals.times, this.signals.values[i], time);
            value.textContent = valueIn(found, unit);
            dot.hidden = found === null;
            dot.style.left = rule.style.left = `${100 * this.#x(time)}%`;
            dot.style.top = `${100 * this.#y(i, found ?? 0)}%`;
        }
    }
}

const valueIn = (value, unit) => (unit && value !== null ? `${number(value)} ${unit}` : number(value));

function pair({name, told}, kind, ...parts) {
    return h("div", {class: kind}, h("dt", {}, name, told ? null : h("small", {}, " (not told to the model)")), h("dd", {}, parts));
}

function rangeOf(places) {
    return [Math.min, Math.max].map((extreme, i) => places.reduce((found, [, value]) => extreme(found, value), i ? -Infinity : Infinity));
}

/** Linear between the knots, level beyond them. */
function valueAt(times, values, time) {
    const after = times.findIndex((knot) => knot >= time);
    if (after < 0) return values.at(-1);
    if (after === 0 || times[after] === time) return values[after];
    const [t0, t1] = [times[after - 1], times[after]], [v0, v1] = [values[after - 1], values[after]];
    return v0 === null || v1 === null ? null : v0 + ((time - t0) / (t1 - t0)) * (v1 - v0);
}
