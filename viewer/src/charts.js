// Curves: uPlot with the page's colors, resized with their place.
import uPlot from "uplot";
import {h, watchWidth} from "./dom.js";
import {number} from "./format.js";
import {FONT} from "./overlay.js";
import {ink, onTheme} from "./theme.js";

function axis(label, side) {
    return {
        label, side, font: FONT, labelFont: FONT, labelSize: 16, labelGap: side === 3 ? 2 : -4,
        size: side === 3 ? 54 : 28, gap: 4, space: side === 3 ? 34 : 72,
        incrs: spacings(COUNTED.includes(label) ? 0 : -12),
        stroke: () => ink("muted"),
        grid: {stroke: () => ink("line"), width: 1},
        ticks: {stroke: () => ink("line-strong"), width: 1, size: 4},
    };
}

/** Spacings of ticks: 1, 2 or 5 times a power of ten; whole numbers for what is counted. */
const spacings = (from) => Array.from({length: 12 - from}, (_, i) => [1, 2, 5].map((each) => Number(`${each}e${from + i}`))).flat();
const COUNTED = ["epoch", "frames"];

/** Labels with the decimals that the spacing of the ticks needs. */
const linearLabels = (plot, values) => {
    const largest = Math.max(...values.map(Math.abs));
    if (values.length < 2 || largest >= 1e5 || largest < 1e-4) return values.map(number);
    const step = values[1] - values[0];
    const decimals = [0, 1, 2, 3, 4, 5, 6].find((each) => Math.abs(step * 10 ** each - Math.round(step * 10 ** each)) < 1e-6) ?? 7;
    return values.map((value) => (Math.abs(value) < step * 1e-6 ? "0" : value.toFixed(decimals).replace("-", "−")));
};

const logLabels = (plot, values) => values.map((value) => {
    if (value == null) return "";
    const mantissa = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
    return Math.abs(mantissa - 1) < 1e-6 || values.filter((each) => each != null).length < 6 ? number(value) : "";
});

/** Upright dashed lines with a word beside them, at values of x. */
function drawMarks(plot, marks) {
    const {ctx, bbox} = plot;
    const ratio = window.devicePixelRatio || 1;
    ctx.save();
    ctx.font = FONT.replace("11px", `${11 * ratio}px`);
    ctx.textBaseline = "top";
    for (const {x, text} of marks) {
        const at = Math.round(plot.valToPos(x, "x", true));
        if (at < bbox.left || at > bbox.left + bbox.width) continue;
        ctx.strokeStyle = ctx.fillStyle = ink("muted");
        ctx.setLineDash([4 * ratio, 4 * ratio]);
        ctx.lineWidth = ratio;
        ctx.beginPath();
        ctx.moveTo(at, bbox.top);
        ctx.lineTo(at, bbox.top + bbox.height);
        ctx.stroke();
        const left = at + ctx.measureText(text).width + 8 * ratio > bbox.left + bbox.width;
        ctx.textAlign = left ? "right" : "left";
        ctx.setLineDash([]);
        ctx.strokeStyle = ink("card");
        ctx.lineWidth = 4 * ratio;
        ctx.strokeText(text, at + (left ? -5 : 5) * ratio, bbox.top + 4 * ratio);
        ctx.fillText(text, at + (left ? -5 : 5) * ratio, bbox.top + 4 * ratio);
    }
    ctx.restore();
}

/**
 * A chart in `container`. series: [{label, color (a variable of style.css), dash, width, stepped, dots, hidden}], data as uPlot's
 * (x first); bands: [[upper, lower, color]]; marks: upright lines; extra: further options of uPlot.
 */
export function chart(container, {x, y, series, data, bands = [], log = false, marks = [], height = 240, legend = true, extra = {}}) {
    const scales = {x: {time: false, ...(extra.scales?.x ?? {})}, y: log ? {distr: 3} : {...(extra.scales?.y ?? {})}};
    const lines = series.map(({label, color, dash, width = 1.8, stepped, dots = false, hidden = false}) => ({
        label, dash, width: hidden ? 0 : width, spanGaps: true,
        stroke: () => ink(color),
        points: {show: dots, size: 5},
        paths: stepped ? uPlot.paths.stepped({align: 1}) : undefined,
        value: (plot, value) => (value == null ? "–" : number(value)),
    }));
    const place = h("div", {class: "chart"});
    container.append(place);
    const plot = new uPlot({
        width: Math.max(200, place.clientWidth || 400), height, scales,
        series: [{label: x, value: (plot, value) => (value == null ? "–" : number(value))}, ...lines],
        bands: bands.map(([upper, lower, color]) => ({series: [upper, lower], fill: () => ink(color)})),
        axes: [{...axis(x, 2), values: linearLabels}, {...axis(y, 3), values: log ? logLabels : linearLabels}],
        legend: {show: legend},
        cursor: {drag: {x: false, y: false}, points: {size: 6}, ...extra.cursor},
        hooks: {draw: [(plot) => drawMarks(plot, marks)], ...extra.hooks},
    }, data, place);
    const rows = plot.root.querySelectorAll(".u-legend .u-series");
    series.forEach(({hidden}, i) => rows[i + 1]?.classList.toggle("out", Boolean(hidden)));
    watchWidth(place, (width) => plot.setSize({width, height}));
    onTheme(() => plot.redraw(false, true));
    return plot;
}

/** A card with a heading for one chart, and the chart in it. */
export function titledChart(grid, title, options) {
    const figure = h("figure", {class: "card"}, h("figcaption", {}, title));
    grid.append(figure);
    return chart(figure, options);
}
