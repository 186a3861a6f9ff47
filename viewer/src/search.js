// The nearest of many points in the plane, by a grid of cells with a few points each.

export class SearchGrid {
    /** `positions` holds three numbers per point, of which the first two count. */
    constructor(positions) {
        this.positions = positions;
        const n = positions.length / 3;
        let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
        for (let i = 0; i < n; i++) {
            const x = positions[3 * i], y = positions[3 * i + 1];
            if (x < x0) x0 = x;
            if (x > x1) x1 = x;
            if (y < y0) y0 = y;
            if (y > y1) y1 = y;
        }
        const [width, height] = [Math.max(x1 - x0, 1e-9), Math.max(y1 - y0, 1e-9)];
        this.cell = Math.max(Math.sqrt((width * height * 4) / n), Math.max(width, height) / 2048);
        this.columns = Math.floor(width / this.cell) + 1;
        this.rows = Math.floor(height / this.cell) + 1;
        [this.x0, this.y0] = [x0, y0];
        this.#sort(n);
    }

    #cellOf(i) {
        const column = Math.floor((this.positions[3 * i] - this.x0) / this.cell);
        const row = Math.floor((this.positions[3 * i + 1] - this.y0) / this.cell);
        return Math.min(row, this.rows - 1) * this.columns + Math.min(column, this.columns - 1);
    }

    #sort(n) {
        this.starts = new Uint32Array(this.columns * this.rows + 1);
        const cells = new Uint32Array(n);
        for (let i = 0; i < n; i++) this.starts[(cells[i] = this.#cellOf(i)) + 1]++;
        for (let c = 0; c < this.starts.length - 1; c++) this.starts[c + 1] += this.starts[c];
        const next = this.starts.slice();
        this.order = new Uint32Array(n);
        for (let i = 0; i < n; i++) this.order[next[cells[i]]++] = i;
    }

    /** Index of the point nearest to (x, y), searched in rings of cells around it. */
    nearest(x, y) {
        const clamp = (value, most) => Math.min(Math.max(Math.floor(value), 0), most - 1);
        const column = clamp((x - this.x0) / this.cell, this.columns), row = clamp((y - this.y0) / this.cell, this.rows);
        // a point outside the grid is this far from the cell that the rings start at
        const outside = Math.hypot(x - this.x0 - (column + 0.5) * this.cell, y - this.y0 - (row + 0.5) * this.cell);
        let best = -1, least = Infinity;
        for (let ring = 0; ring < this.columns + this.rows; ring++) {
            if (best >= 0 && (ring - 0.5) * this.cell > Math.sqrt(least) + outside) break;
            for (let r = row - ring; r <= row + ring; r++) {
                if (r < 0 || r >= this.rows) continue;
                const step = Math.abs(r - row) === ring ? 1 : 2 * ring || 1;
                for (let c = column - ring; c <= column + ring; c += step) {
                    if (c < 0 || c >= this.columns) continue;
                    const cell = r * this.columns + c;
                    for (let k = this.starts[cell]; k < this.starts[cell + 1]; k++) {
                        const i = this.order[k];
                        const distance = (this.positions[3 * i] - x) ** 2 + (this.positions[3 * i + 1] - y) ** 2;
                        if (distance < least) [best, least] = [i, distance];
                    }
                }
            }
        }
        return best;
    }
}
