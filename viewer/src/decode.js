// Arrays of the content: base64 → inflated → byte planes joined → differences in time summed.

const KINDS = {float32: Float32Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array};

function bytesOf(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
}

async function inflated(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The numbers whose lowest bytes come first, then their second bytes, and so on. */
function joined(planes, Kind) {
    const size = Kind.BYTES_PER_ELEMENT;
    if (size === 1) return planes;
    const length = planes.length / size;
    const bytes = new Uint8Array(planes.length);
    for (let plane = 0; plane < size; plane++) {
        for (let i = 0, from = plane * length, to = plane; i < length; i++, from++, to += size) bytes[to] = planes[from];
    }
    return new Kind(bytes.buffer);
}

function summed(values, row) {
    for (let i = row; i < values.length; i++) values[i] += values[i - row]; // modulo 65536 by its type
    return values;
}

/** The stored numbers of an array: quantized ones as they are, with `low` and `span` (value = low + q/most · span). */
export async function decode(array) {
    const Kind = KINDS[array.type];
    const raw = joined(await inflated(bytesOf(array.data)), Kind);
    const row = array.shape.slice(1).reduce((a, b) => a * b, 1);
    if (array.deltas) summed(raw, row);
    const most = array.type === "uint16" ? 65535 : array.type === "uint8" ? 255 : 0;
    return {raw, row, shape: array.shape, low: array.low, span: array.high - array.low, most};
}

/** One value of a quantized array. */
export const valueAt = (array, index) => array.low + (array.raw[index] / array.most) * array.span;

/** Row `index` along the first axis, not copied. */
export const rowOf = (array, index) => array.raw.subarray(index * array.row, (index + 1) * array.row);

const decoded = new WeakMap();

/** As `decode`, but each array only once while the content lives: for meshes, paths and other small things. */
export function decodeOnce(array) {
    if (!decoded.has(array)) decoded.set(array, decode(array));
    return decoded.get(array);
}
