// Truth | prediction | error of a field as pictures.
import {isSigned, paddedRange} from "./colors.js";
import {withUnit} from "./format.js";
import {drawDots, drawMarker} from "./overlay.js";
import {Stage} from "./stage.js";
import {ink} from "./theme.js";

export class FieldPictures {
    /** `read({index, frame})` is called with the stored point under the pointer; without WebGL `stage` is null. */
    constructor(container, motion, read) {
        this.marked = null;
        this.queries = null;
        this.stage = Stage.open(container, ["Truth", "Prediction", "Error"], {
            motion,
            hover: (x, y) => this.data && read(this.#pick(this.stage.nearest(x, y))),
        });
        if (this.stage) this.stage.overlay = (context, lens) => this.#drawOver(context, lens);
    }

    #pick(i) {
        const stored = this.picture.stored(i);
        return this.picture.whole ? {index: stored % this.data.points, frame: Math.floor(stored / this.data.points)}
            : {index: stored, frame: this.frame};
    }

    /** Everything that decides what is seen: the picture, the data, the frame, the field and how to scale its colors. */
    show({picture, data, frame, field, times, shared}) {
        if (!this.stage) return;
        const same = this.picture === picture && this.data === data;
        const stays = same && picture.whole; // all times are in the picture already; only the line moves
        Object.assign(this, {picture, data, frame, field, times});
        this.stage.setPicture(picture);
        const at = picture.whole ? null : frame;
        if (!stays) this.stage.setChannels(...data.channels(at));
        this.#scale(at, shared);
        this.stage.invalidate();
    }

    #scale(at, shared) {
        const {field, data, stage} = this;
        const signed = isSigned(field.low, field.high);
        const map = signed ? "diverging" : "sequential";
        const label = withUnit(field.name, field.unit);
        const common = paddedRange(field.low, field.high, signed);
        const own = data.ranges(at), largest = shared ? data.ranges(null).error[1] : own.error[1];
        const range = (bounds) => (shared ? common : paddedRange(...bounds, signed));
        stage.setPanel(0, {weight: [1, 0], range: range(own.truth), map, label});
        stage.setPanel(1, {weight: [1, 1], range: range(own.prediction), map, label});
        stage.setPanel(2, {weight: [0, 1], absolute: true, range: [0, largest || 1e-12], map: "error", label: `|error| of ${label}`});
    }

    /** Mark a stored point (null: none) and overlay query points (null: none), both in coordinates. */
    mark(point, queries) {
        [this.marked, this.queries] = [point, queries];
        this.stage?.invalidate();
    }

    #drawOver(context, lens) {
        const {picture} = this;
        if (this.queries) {
            if (picture.whole) this.#drawTicks(context, lens);
            else drawDots(context, this.queries.map((at) => picture.position(this.onto(at))), lens);
        }
        if (picture.whole) {
            const [, y] = lens.place(picture.position([0, this.times[this.frame]]));
            for (const [color, width, dash] of [["card", 3, []], ["ink", 1.5, [5, 3]]]) {
                context.strokeStyle = ink(color);
                context.setLineDash(dash);
                context.lineWidth = width;
                context.beginPath();
                context.moveTo(0, y);
                context.lineTo(lens.width, y);
                context.stroke();
            }
            context.setLineDash([]);
        }
        if (this.marked) {
            const at = picture.whole ? [this.marked.at[0], this.times[this.marked.frame]] : this.onto(this.marked.at);
            drawMarker(context, ...lens.place(picture.position(at)));
        }
    }

    /** Coordinates in space as coordinates in the picture: a slice leaves one out. */
    onto(at) {
        return this.kept ? this.kept.map((axis) => at[axis]) : at;
    }

    #drawTicks(context, lens) {
        context.strokeStyle = ink("query");
        context.lineWidth = 1.2;
        context.beginPath();
        for (const [x] of this.queries) {
            const [px] = lens.place(this.picture.position([x, 0]));
            context.moveTo(px, lens.height);
            context.lineTo(px, lens.height - 9);
        }
        context.stroke();
    }
}
