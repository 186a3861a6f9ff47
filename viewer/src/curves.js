// Sections of curves: error against time, and the course of the training.
import {titledChart} from "./charts.js";
import {h, section} from "./dom.js";

/** Error against time per field, with its spread over the samples, the baseline and the trained horizon. */
export function errorsSection({errors, headline, trained_until}) {
    if (!errors || errors.times.length < 2) return null;
    const node = section("errors", "Error against time", `Mean over the ${headline.split} samples with one standard deviation around it.`);
    const grid = h("div", {class: "grid"});
    node.append(grid);
    const marks = trained_until === null ? [] : [{x: trained_until, text: "trained until here"}];
    const build = () => errors.fields.forEach(({name, unit, metric, mean, std, baseline}) => {
        const upper = mean.map((value, i) => (value == null ? null : value + std[i]));
        const lower = mean.map((value, i) => (value == null ? null : Math.max(0, value - std[i])));
        const data = [errors.times, mean, upper, lower];
        const series = [{label: `${metric}, mean and spread`, color: "accent", width: 2},
            {label: "+ spread", color: "accent", hidden: true}, {label: "− spread", color: "accent", hidden: true}];
        if (baseline) {
            data.push(baseline);
            series.push({label: headline.baseline_kind, color: "muted", dash: [6, 4]});
        }
        titledChart(grid, name, {x: "t", y: unit ? `${metric} [${unit}]` : metric, data, series, bands: [[2, 3, "accent-soft"]], marks,
            extra: {scales: {y: {range: (plot, low, high) => [0, 1.05 * high || 1]}}}});
    });
    return {node, build};
}

const positive = (values) => values.map((value) => (value > 0 ? value : null));

/** Loss and validation error, learning rate, rollout length, each against the epoch. */
export function trainingSection({training}) {
    if (!training) return null;
    const node = section("training", "Training");
    const grid = h("div", {class: "grid"});
    node.append(grid);
    const build = () => {
        const {epochs, loss, validation, learning_rate, length} = training;
        const measured = new Map(validation ?? []);
        const all = [...new Set([...epochs, ...measured.keys()])].sort((a, b) => a - b);
        const losses = new Map(epochs.map((epoch, i) => [epoch, loss[i]]));
        const pick = (values) => positive(all.map((epoch) => values.get(epoch) ?? null));
        const course = (title, y, options) => titledChart(grid, title, {x: "epoch", y, ...options});
        course("Loss and validation error", "loss, error", {log: true, data: [all, pick(losses), pick(measured)], series: [
            {label: "loss", color: "accent"}, {label: "validation", color: "error", dots: measured.size < 60}]});
        if (learning_rate?.length) {
            course("Learning rate", "learning rate", {data: [epochs, learning_rate], series: [{label: "learning rate", color: "accent"}]});
        }
        if (length?.length) {
            course("Rollout length", "frames", {data: [epochs, length], series: [{label: "frames", color: "accent", stepped: true}],
                extra: {scales: {y: {range: (plot, low, high) => [0, Math.max(1, Math.ceil(1.1 * high))]}}}});
        }
    };
    return {node, build};
}
