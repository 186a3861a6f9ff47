// The values of one field of one sample: truth and residual, decoded when chosen, and what follows from them.
import {decode, rowOf, valueAt} from "./decode.js";

const KEPT = 4; // decoded fields held at once

export class FieldData {
    constructor(truth, residual) {
        [this.truth, this.residual] = [truth, residual];
        [this.frames, this.points] = truth.shape;
        this._ranges = new Map();
    }

    /** Truth, prediction and error at a stored point. */
    at(frame, point) {
        const i = frame * this.points + point;
        const truth = valueAt(this.truth, i), residual = valueAt(this.residual, i);
        return {truth, prediction: truth + residual, error: Math.abs(residual)};
    }

    /** The two channels of a frame, or of all frames at once. */
    channels(frame) {
        const of = (array) => ({...array, raw: frame === null ? array.raw : rowOf(array, frame)});
        return [of(this.truth), of(this.residual)];
    }

    /** Lowest and highest truth, prediction and error in a frame (null: in all). */
    ranges(frame) {
        if (!this._ranges.has(frame)) this._ranges.set(frame, this.#measure(frame));
        return this._ranges.get(frame);
    }

    #measure(frame) {
        const [from, to] = frame === null ? [0, this.frames * this.points] : [frame * this.points, (frame + 1) * this.points];
        const {truth, residual} = this;
        const ta = truth.span / truth.most, ra = residual.span / residual.most;
        let [t0, t1, p0, p1, e0, e1] = [Infinity, -Infinity, Infinity, -Infinity, Infinity, -Infinity];
        for (let i = from; i < to; i++) {
            const t = truth.low + truth.raw[i] * ta, r = residual.low + residual.raw[i] * ra;
            const p = t + r, e = r < 0 ? -r : r;
            if (t < t0) t0 = t;
            if (t > t1) t1 = t;
            if (p < p0) p0 = p;
            if (p > p1) p1 = p;
            if (e < e0) e0 = e;
            if (e > e1) e1 = e;
        }
        return {truth: [t0, t1], prediction: [p0, p1], error: [e0, e1]};
    }
}

const held = new Map();

/** The data of a field of a sample; the last few stay decoded. */
export function fieldData(sample, field) {
    const {truth, residual} = sample.fields[field];
    const found = held.get(truth) ?? Promise.all([decode(truth), decode(residual)]).then((both) => new FieldData(...both));
    held.delete(truth);
    held.set(truth, found);
    if (held.size > KEPT) held.delete(held.keys().next().value);
    return found;
}
