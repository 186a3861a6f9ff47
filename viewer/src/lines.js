// Truth and prediction on a line: two curves at the time shown, and their difference below.
import {chart} from "./charts.js";
import {decodeOnce, rowOf} from "./decode.js";
import {withUnit} from "./format.js";
import {listen} from "./gestures.js";
import {ink} from "./theme.js";

const LINE = {dim: 2, fill: true, extent: [1, 1, 0]}; // what the camera looks at, as in a space-time picture

export class FieldLines {
    /** `read(index)` is called with the stored point nearest to the pointer; `camera` zooms along x. */
    constructor(container, axes, camera, read) {
        Object.assign(this, {container, axes, camera, read, marked: null, queries: null});
        camera.onChange(() => this.plots?.forEach((plot) => {
            const [min, max] = this.#window();
            plot.setScale("x", {min, max});
        }));
    }

    async show({mesh, data, frame, field, shared}) {
        const points = (await decodeOnce(mesh.points)).raw;
        if (this.points !== points) {
            this.points = points;
            this.order = Uint32Array.from(points.keys()).sort((a, b) => points[a] - points[b]);
            this.x = Array.from(this.order, (i) => points[i]);
        }
        Object.assign(this, {data, frame});
        const [truth, prediction, error] = this.#curves(data, frame);
        const whole = shared ? data.ranges(null) : data.ranges(frame);
        const bounds = shared ? [Math.min(field.low, whole.prediction[0]), Math.max(field.high, whole.prediction[1])]
            : [Math.min(whole.truth[0], whole.prediction[0]), Math.max(whole.truth[1], whole.prediction[1])];
        const room = 0.04 * (bounds[1] - bounds[0]) || 0.5;
        this.bounds = {values: [bounds[0] - room, bounds[1] + room], error: [0, 1.05 * whole.error[1] || 1]};
        if (this.field !== field || !this.plots) this.#build(field, truth, prediction, error);
        this.plots[0].setData([this.x, truth, prediction]);
        this.plots[1].setData([this.x, error]);
    }

    #curves(data, frame) {
        const t = rowOf(data.truth, frame), r = rowOf(data.residual, frame);
        const ta = data.truth.span / data.truth.most, ra = data.residual.span / data.residual.most;
        const truth = [], prediction = [], error = [];
        for (const i of this.order) {
            const value = data.truth.low + t[i] * ta, residual = data.residual.low + r[i] * ra;
            truth.push(value);
            prediction.push(value + residual);
            error.push(Math.abs(residual));
        }
        return [truth, prediction, error];
    }

    #build(field, truth, prediction, error) {
        this.plots?.forEach((plot) => plot.root.parentElement.remove());
        this.plots?.forEach((plot) => plot.destroy());
        this.field = field;
        const label = withUnit(field.name, field.unit);
        const options = (which) => ({
            scales: {x: {range: () => this.#window()}, y: {range: () => this.bounds[which]}},
            cursor: {sync: {key: "lines"}, y: false},
            hooks: {
                setCursor: [(plot) => plot.cursor.idx != null && plot.cursor.left >= 0 && this.read(this.order[plot.cursor.idx])],
                drawClear: [(plot) => this.#drawMarks(plot, which === "values")],
            },
        });
        this.plots = [
            chart(this.container, {x: this.axes[0], y: label, data: [this.x, truth, prediction], height: 260, extra: options("values"),
                series: [{label: "truth", color: "ink", width: 2}, {label: "prediction", color: "accent", dash: [6, 4], width: 2}]}),
            chart(this.container, {x: this.axes[0], y: withUnit("|error|", field.unit), data: [this.x, error], height: 170,
                extra: options("error"), series: [{label: "error", color: "error"}]}),
        ];
        this.plots.forEach((plot) => this.#listen(plot.over));
    }

    /** The x that the camera sees. */
    #window() {
        const [low, high] = [this.x[0], this.x.at(-1)];
        const {x, zoom} = this.camera;
        return [-0.5, 0.5].map((side) => (low + high) / 2 + (x + side / zoom) * (high - low || 1));
    }

    #listen(view) {
        const {camera} = this;
        listen(view, {
            camera: {
                zoomAt: (factor, x, y, lens) => camera.zoomAt(factor, x, lens.height / 2, lens),
                panBy: (dx, dy, lens) => camera.panBy(dx, 0, lens),
                onChange: (react) => camera.onChange(react),
                get moved() { return camera.moved; },
            },
            area: () => ({lens: camera.lens(LINE, view.clientWidth, view.clientHeight), left: 0, top: 0}),
            orbits: () => false,
        });
    }

    mark(point, queries) {
        [this.marked, this.queries] = [point, queries];
        this.plots?.forEach((plot) => plot.redraw(false));
    }

    /** The point read as an upright line, the query points as ticks at the lower edge. */
    #drawMarks({ctx, bbox, valToPos}, withQueries) {
        const bottom = bbox.top + bbox.height;
        const upright = (places, top, color, width) => {
            ctx.strokeStyle = ink(color);
            ctx.lineWidth = width * (window.devicePixelRatio || 1);
            ctx.beginPath();
            for (const [x] of places) {
                const at = valToPos(x, "x", true);
                if (at < bbox.left || at > bbox.left + bbox.width) continue;
                ctx.moveTo(at, bottom);
                ctx.lineTo(at, top);
            }
            ctx.stroke();
        };
        ctx.save();
        if (this.queries && withQueries) upright(this.queries, bottom - 0.06 * bbox.height, "query", 1.5);
        if (this.marked) upright([this.marked.at], bbox.top, "muted", 1);
        ctx.restore();
    }
}
