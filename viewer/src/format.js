// Numbers as text: values, counts, and the ticks of an axis.

const minus = (text) => text.replace("-", "−");

/** A value with four significant digits, without trailing zeros; a dash for null. */
export function number(value) {
    if (value == null) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e5 || size < 1e-3) return minus(value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e").replace("e-", "e−"));
    return minus(String(Number(value.toPrecision(4))));
}

/** A value with three significant digits and its spread with two, both with the decimals that the finer of them needs. */
export function withSpread(value, spread) {
    const size = Math.abs(value);
    if (value == null || spread == null || size >= 1e5 || size < 1e-4) return spread == null ? number(value) : `${number(value)} ± ${number(spread)}`;
    const places = [2 - Math.floor(Math.log10(size)), spread > 0 ? 1 - Math.floor(Math.log10(spread)) : 0];
    const decimals = Math.min(8, Math.max(0, ...places));
    return minus(`${value.toFixed(decimals)} ± ${spread.toFixed(decimals)}`);
}

export const count = (value) => value.toLocaleString("en-US");

/** A name with its unit behind it, if it has one. */
export const withUnit = (name, unit) => (unit ? `${name} (${unit})` : name);

/** Round values in [low, high], about `wanted` of them, as [{value, text}]. */
export function ticks(low, high, wanted) {
    if (!(high > low)) return [{value: low, text: number(low)}];
    const raw = (high - low) / Math.max(1, wanted);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5].find((factor) => factor * power >= raw * 0.7) ?? 10);
    const values = [];
    for (let i = Math.ceil(low / step - 1e-6); i <= high / step + 1e-6; i++) values.push(i * step);
    const largest = Math.max(Math.abs(low), Math.abs(high));
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-6));
    const text = (value) => {
        if (Math.abs(value) < step * 1e-6) return "0";
        if (largest >= 1e5 || largest < 1e-3) return number(value);
        return minus(value.toFixed(decimals));
    };
    return values.map((value) => ({value, text: text(value)}));
}
