// Fewer points while something moves: one per cell of a grid fine enough to keep at least a given number of them.

export const ENOUGH = 20000; // points per panel drawn without thinning, and the least that thinning keeps

/** Cells along each axis such that the longest has `k`, and the cell of each point. */
function cellsOf(positions, extent, k) {
    const longest = Math.max(...extent);
    const counts = extent.map((size) => Math.max(1, Math.ceil((k * size) / longest)));
    const cells = new Uint32Array(positions.length / 3);
    for (let i = 0; i < cells.length; i++) {
        let cell = 0;
        for (let axis = 2; axis >= 0; axis--) {
            const place = Math.floor(((positions[3 * i + axis] + extent[axis] / 2) / longest) * k);
            cell = cell * counts[axis] + Math.min(Math.max(place, 0), counts[axis] - 1);
        }
        cells[i] = cell;
    }
    return {cells, total: counts[0] * counts[1] * counts[2], size: longest / k};
}

/** How many sides of the box a point lies on; such points stand for their cells, so that the picture keeps its rim. */
function sides(positions, extent, i) {
    let found = 0;
    for (let axis = 0; axis < 3; axis++) {
        if (extent[axis] > 0 && Math.abs(positions[3 * i + axis]) > 0.4999 * extent[axis]) found++;
    }
    return found;
}

function keepers({cells, total}, positions, extent) {
    const keeper = new Int32Array(total).fill(-1);
    let kept = 0;
    for (let i = 0; i < cells.length; i++) {
        const other = keeper[cells[i]];
        if (other < 0) kept++;
        if (other < 0 || sides(positions, extent, i) > sides(positions, extent, other)) keeper[cells[i]] = i;
    }
    return {keeper, kept};
}

/** The thinned index of a picture: `index` to draw (points, or triangles between cells), `count` points, `size` of a cell. */
export function thinned({positions, extent, triangles}) {
    const n = positions.length / 3;
    const axes = extent.filter((size) => size > 0).length;
    const most = axes === 3 ? 250 : 3000;
    for (let k = Math.ceil(Math.min(1.05 * ENOUGH, n) ** (1 / axes)); ; k = Math.ceil(1.12 * k)) {
        const grid = cellsOf(positions, extent, Math.min(k, most));
        const {keeper, kept} = keepers(grid, positions, extent);
        if (kept < ENOUGH && k < most) continue;
        if (kept < ENOUGH) return {index: everyOther(n), count: everyOther(n).length, size: 0, triangles: false};
        if (triangles) return {index: coarse(triangles, grid.cells, keeper), count: kept, size: 0, triangles: true};
        return {index: Uint32Array.from(keeper.filter((i) => i >= 0)), count: kept, size: grid.size, triangles: false};
    }
}

/** For clouds so uneven that no grid serves: every few point. */
function everyOther(n) {
    const stride = Math.max(1, Math.floor(n / ENOUGH));
    return Uint32Array.from({length: Math.ceil(n / stride)}, (_, i) => i * stride);
}

/** Triangles between the points that stand for their cells; those within one or two cells vanish. */
function coarse(triangles, cells, keeper) {
    const index = new Uint32Array(triangles.length);
    let used = 0;
    for (let t = 0; t < triangles.length; t += 3) {
        const a = keeper[cells[triangles[t]]], b = keeper[cells[triangles[t + 1]]], c = keeper[cells[triangles[t + 2]]];
        if (a === b || b === c || a === c) continue;
        index[used++] = a;
        index[used++] = b;
        index[used++] = c;
    }
    return index.slice(0, used);
}
