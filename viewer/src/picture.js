// Pictures: what a stage draws. Positions scaled to about one, triangles or none, and which stored value each point shows.
import {WHOLE} from "./camera.js";
import {decodeOnce} from "./decode.js";
import {number} from "./format.js";
import {SearchGrid} from "./search.js";
import {ENOUGH, thinned} from "./thinning.js";

const FLATTEST = 6; // a longer or higher domain is stretched, and the page says so
const CROWDED = 4; // most points in so small a part of the width and height: the picture opens on that part

export class Picture {
    /**
     * points: coordinates, `dim` per point (2 or 3); triangles: indices or null; axes: a name per coordinate;
     * source: for each point the index of its value in a frame (null: its own); whole: one frame holds all times;
     * fill: the axes have nothing to do with each other (space and time).
     */
    constructor({points, dim, triangles = null, axes, source = null, whole = false, fill = false}) {
        Object.assign(this, {dim, triangles, axes, source, whole, fill, count: points.length / dim});
        const bounds = Array.from({length: dim}, (_, axis) => boundsOf(points, dim, axis));
        const sizes = bounds.map(([low, high]) => high - low || 1);
        const longest = Math.max(...sizes);
        this.stretched = !fill && dim === 2 && longest / Math.min(...sizes) > FLATTEST * 2;
        this.extent = sizes.map((size) => (fill ? 1 : this.stretched ? Math.max(size / longest, 1 / FLATTEST) : size / longest));
        this.origin = bounds.map(([low, high]) => (low + high) / 2);
        this.scale = sizes.map((size, axis) => size / this.extent[axis]); // coordinate = origin + position · scale
        if (dim === 2) this.extent.push(0);
        this.positions = new Float32Array(3 * this.count);
        for (let i = 0; i < this.count; i++) {
            for (let axis = 0; axis < dim; axis++) {
                this.positions[3 * i + axis] = (points[dim * i + axis] - this.origin[axis]) / this.scale[axis];
            }
        }
    }

    position(coordinates) {
        const place = this.origin.map((origin, axis) => (coordinates[axis] - origin) / this.scale[axis]);
        return place.length === 2 ? [...place, 0] : place;
    }

    /** What to look at first, {x, y, zoom}: all of it, or the part where most of the points are. */
    get home() {
        return (this._home ??= this.dim === 2 && !this.fill ? crowded(this) : WHOLE);
    }

    get search() {
        return (this._search ??= new SearchGrid(this.positions));
    }

    /** What to draw while something moves; null where everything is few enough. */
    get thin() {
        if (this._thin === undefined) this._thin = this.count > ENOUGH ? thinned(this) : null;
        return this._thin;
    }

    /** Diameters: in the plane wide enough that neighbors meet, in space small enough to look between them. */
    get spacing() {
        return (this._spacing ??= this.dim === 3 ? evenSpacing(this) : localSpacing(this));
    }

    /** The value index (in a frame) of point i. */
    stored(i) {
        return this.source ? this.source[i] : i;
    }
}

function boundsOf(points, dim, axis) {
    let low = Infinity, high = -Infinity;
    for (let i = axis; i < points.length; i += dim) {
        if (points[i] < low) low = points[i];
        if (points[i] > high) high = points[i];
    }
    return [low, high];
}

/** The middle four fifths of the points along each axis, if that is a small part. */
function crowded({count, positions, extent}) {
    const middle = [0, 1].map((axis) => {
        const sorted = Float32Array.from({length: count}, (_, i) => positions[3 * i + axis]).sort();
        return [sorted[Math.floor(0.1 * (count - 1))], sorted[Math.ceil(0.9 * (count - 1))]];
    });
    const zoom = Math.min(...middle.map(([low, high], axis) => extent[axis] / (high - low)));
    const [x, y] = middle.map(([low, high]) => (low + high) / 2);
    return zoom > CROWDED && Number.isFinite(zoom) ? {x, y, zoom} : WHOLE;
}

function evenSpacing({count, extent}) {
    const volume = extent.reduce((a, b) => a * Math.max(b, 1e-6), 1);
    return new Float32Array(count).fill(0.5 * Math.cbrt(volume / count));
}

/** Nearly three times the distance to the third nearest point, for every point of a cloud. */
function localSpacing({count, search, positions}) {
    const spacing = new Float32Array(count);
    const {columns, rows, starts, order, cell} = search;
    for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) {
            const here = row * columns + column;
            if (starts[here] === starts[here + 1]) continue;
            const around = [];
            for (let r = Math.max(0, row - 1); r <= Math.min(rows - 1, row + 1); r++) {
                for (let c = Math.max(0, column - 1); c <= Math.min(columns - 1, column + 1); c++) {
                    for (let k = starts[r * columns + c]; k < starts[r * columns + c + 1]; k++) around.push(order[k]);
                }
            }
            const many = around.length > 400; // a very uneven cloud: density of the cell instead of distances
            for (let k = starts[here]; k < starts[here + 1]; k++) {
                spacing[order[k]] = many ? 2.8 * cell * Math.sqrt(1 / (starts[here + 1] - starts[here]))
                    : 2.8 * third(positions, order[k], around, cell);
            }
        }
    }
    return spacing;
}

function third(positions, i, around, otherwise) {
    let [a, b, c] = [Infinity, Infinity, Infinity];
    for (const j of around) {
        if (j === i) continue;
        const d = (positions[3 * i] - positions[3 * j]) ** 2 + (positions[3 * i + 1] - positions[3 * j + 1]) ** 2;
        if (d < a) [a, b, c] = [d, a, b];
        else if (d < b) [b, c] = [d, b];
        else if (d < c) c = d;
    }
    return Number.isFinite(c) ? Math.sqrt(c) : otherwise;
}

const made = new WeakMap();

/** `make()` once per mesh and key. */
async function once(mesh, key, make) {
    if (!made.has(mesh)) made.set(mesh, new Map());
    const pictures = made.get(mesh);
    if (!pictures.has(key)) pictures.set(key, make());
    return pictures.get(key);
}

/** The mesh itself, in the plane or in space. */
const meshPicture = (mesh, axes) => once(mesh, "mesh", async () => {
    const points = (await decodeOnce(mesh.points)).raw;
    const triangles = mesh.triangles && axes.length === 2 ? (await decodeOnce(mesh.triangles)).raw : null;
    return new Picture({points, dim: axes.length, triangles, axes});
});

/** One slice of a mesh in space, drawn in the plane of its two other axes. */
const slicePicture = (mesh, number, axes) => once(mesh, `slice ${number}`, async () => {
    const slice = mesh.slices[number];
    const points = (await decodeOnce(mesh.points)).raw;
    const source = (await decodeOnce(slice.points)).raw;
    const kept = [0, 1, 2].filter((axis) => axis !== slice.axis);
    const flat = new Float32Array(2 * source.length);
    const place = new Map();
    source.forEach((point, i) => {
        place.set(point, i);
        flat[2 * i] = points[3 * point + kept[0]];
        flat[2 * i + 1] = points[3 * point + kept[1]];
    });
    const triangles = slice.triangles && (await decodeOnce(slice.triangles)).raw.map((point) => place.get(point));
    return new Picture({points: flat, dim: 2, triangles, source, axes: kept.map((axis) => axes[axis])});
});

/** A mesh on a line with all times: x to the right, time upward. */
export const spaceTimePicture = (mesh, times, axes) => once(mesh, "space-time", async () => {
    const points = (await decodeOnce(mesh.points)).raw;
    const n = points.length;
    const order = Uint32Array.from(points.keys()).sort((a, b) => points[a] - points[b]);
    const flat = new Float32Array(2 * n * times.length);
    const source = new Uint32Array(n * times.length);
    for (let t = 0, k = 0; t < times.length; t++) {
        for (let i = 0; i < n; i++, k++) {
            source[k] = t * n + order[i];
            flat[2 * k] = points[order[i]];
            flat[2 * k + 1] = times[t];
        }
    }
    const triangles = gridTriangles(times.length, n);
    return new Picture({points: flat, dim: 2, triangles, source, axes: [axes[0], "t"], whole: true, fill: true});
});

function gridTriangles(rows, columns) {
    const triangles = new Uint32Array(6 * (rows - 1) * (columns - 1));
    let k = 0;
    for (let row = 0; row + 1 < rows; row++) {
        for (let column = 0; column + 1 < columns; column++) {
            const a = row * columns + column;
            for (const corner of [a, a + 1, a + columns, a + 1, a + columns + 1, a + columns]) triangles[k++] = corner;
        }
    }
    return triangles;
}

/** The ways to look at a mesh in the plane or in space: [{name, kept, picture()}]; kept: the axes a slice leaves, else null. */
export function looks(mesh, axes) {
    const slices = mesh.slices.map(({axis, at}, i) => ({
        name: `slice at ${axes[axis]} = ${number(at)}`,
        kept: [0, 1, 2].filter((other) => other !== axis),
        picture: () => slicePicture(mesh, i, axes),
    }));
    return [...slices, {name: "points", kept: null, picture: () => meshPicture(mesh, axes)}];
}
