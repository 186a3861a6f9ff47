// The value under the pointer: one stored point, read in all three panels at once from the full arrays.
import {h, whole} from "./dom.js";
import {count, number} from "./format.js";

export class Reading {
    /** `choose(index)` when the reader types the number of a point. */
    constructor(axes, timed, choose) {
        [this.axes, this.timed] = [axes, timed];
        this.last = null;
        const {node, control} = whole("Point", 1, choose);
        this.input = control;
        this.cells = Object.fromEntries(["where", "truth", "prediction", "error"].map((name) => [name, h("dd", {}, "–")]));
        const pair = (name, word) => h("div", {class: `pair ${name}`}, h("dt", {}, word), this.cells[name]);
        this.node = h("div", {class: "reading"}, node, h("dl", {},
            pair("where", "at"), pair("truth", "truth"), pair("prediction", "prediction"), pair("error", "error")));
    }

    setCount(points) {
        this.input.max = points - 1;
        this.input.title = `0 to ${count(points - 1)}; move the pointer over a picture or type a number`;
    }

    show({index, x, time, truth, prediction, error}, unit) {
        this.last = {index, x, truth, prediction, error};
        if (this.input.valueAsNumber !== index) this.input.value = index;
        const where = this.axes.map((axis, i) => `${axis} = ${number(x[i])}`);
        if (this.timed) where.push(`t = ${number(time)}`);
        const value = (each) => (unit ? `${number(each)} ${unit}` : number(each));
        this.cells.where.textContent = where.join(", ");
        this.cells.truth.textContent = value(truth);
        this.cells.prediction.textContent = value(prediction);
        this.cells.error.textContent = value(error);
    }

    clear() {
        this.last = null;
        this.input.value = "";
        for (const cell of Object.values(this.cells)) cell.textContent = "–";
    }
}
