// The painter: draws a picture through WebGL once, and colors it in every panel.
import {BufferAttribute, BufferGeometry, Camera, DataTexture, DoubleSide, DynamicDrawUsage, GLSL3, Mesh, NearestFilter, NoBlending,
    Points, RawShaderMaterial, Scene, WebGLRenderer, WebGLRenderTarget} from "three";
import {colorTable, LEVELS} from "./colors.js";
import {h} from "./dom.js";
import {colorFragment, colorVertex, placeFragment, placeVertex} from "./shaders.js";

/** Whether a graphics card draws; without one, smooth edges would cost more than all the rest. */
function drawnByHardware(context) {
    const names = context.getExtension("WEBGL_debug_renderer_info");
    const name = context.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : context.RENDERER);
    return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

const nowhere = new Camera(); // the shaders place everything themselves

const material = (vertexShader, fragmentShader, uniforms, defines = {}) => new RawShaderMaterial({
    vertexShader, fragmentShader, uniforms, defines, glslVersion: GLSL3, side: DoubleSide, blending: NoBlending});

export class Painter {
    #geometries = new WeakMap();

    /** null where the browser has no WebGL 2. */
    static open() {
        const canvas = h("canvas", {class: "gl", "aria-hidden": "true"});
        const context = canvas.getContext("webgl2", {antialias: false, depth: false});
        return context && new Painter(canvas, context);
    }

    constructor(canvas, context) {
        this.canvas = canvas;
        this.finer = drawnByHardware(context) ? 2 : 1; // pixels kept per pixel shown, along each axis
        this.renderer = new WebGLRenderer({canvas, context});
        this.renderer.autoClear = false;
        this.renderer.setClearColor(0, 0);
        this.kept = new WebGLRenderTarget(1, 1, {minFilter: NearestFilter, magFilter: NearestFilter});
        const scaling = {low: {value: [0, 0]}, span: {value: [1, 1]}};
        this.placing = {...scaling, center: {value: 0}, scale: {value: 0}, right: {value: 0}, up: {value: 0}, toward: {value: 0},
            pixels: {value: 1}, least: {value: 0}, largest: {value: 0}, weight: {value: [0, 0]}};
        const empty = new BufferGeometry();
        const placed = (defines) => material(placeVertex, placeFragment, this.placing, defines);
        this.kinds = {mesh: new Mesh(empty, placed({})), plane: new Points(empty, placed({POINTS: 1, PLANE: 1})),
            space: new Points(empty, placed({POINTS: 1}))};
        this.kinds.mesh.material.depthTest = false;
        this.scene = new Scene().add(...Object.values(this.kinds));

        const texture = new DataTexture(new Uint8Array(4 * LEVELS), LEVELS, 1);
        this.coloring = {...scaling, weight: {value: 0}, range: {value: 0}, corner: {value: 0}, absolute: {value: false},
            finer: {value: this.finer}, map: {value: texture}, kept: {value: this.kept.texture}};
        const corners = new BufferAttribute(new Float32Array([-1, -1, 0, 3, -1, 0, -1, 3, 0]), 3);
        const flat = new Mesh(new BufferGeometry().setAttribute("position", corners), material(colorVertex, colorFragment, this.coloring));
        flat.material.depthTest = false;
        this.sheet = new Scene().add(flat);
        for (const object of [...Object.values(this.kinds), flat]) object.frustumCulled = false;
        this.maps = new Map();
    }

    /** The picture to draw from now on; values have to be set anew. */
    setPicture(picture) {
        this.picture = picture;
        if (this.#geometries.has(picture)) return;
        const geometry = new BufferGeometry();
        geometry.setAttribute("position", new BufferAttribute(picture.positions, 3));
        const channels = new BufferAttribute(new Uint16Array(2 * picture.count), 2, true);
        geometry.setAttribute("channels", channels.setUsage(DynamicDrawUsage));
        const full = picture.triangles && new BufferAttribute(picture.triangles, 1);
        if (!full || picture.thin?.triangles === false) geometry.setAttribute("size", new BufferAttribute(picture.spacing, 1));
        this.#geometries.set(picture, {geometry, full, thin: picture.thin && new BufferAttribute(picture.thin.index, 1)});
    }

    /** Two channels of quantized values: {raw, low, span, most} each, raw a frame; the second may be null. */
    setChannels(first, second) {
        const attribute = this.#geometries.get(this.picture).geometry.getAttribute("channels");
        const {source, count} = this.picture;
        [first, second].forEach((channel, offset) => {
            if (!channel) return;
            const factor = 65535 / channel.most;
            const target = attribute.array, raw = channel.raw;
            for (let i = 0, k = offset; i < count; i++, k += 2) target[k] = raw[source ? source[i] : i] * factor;
            this.placing.low.value[offset] = channel.low;
            this.placing.span.value[offset] = channel.span;
        });
        attribute.needsUpdate = true;
    }

    /** Set the size of the canvas in CSS pixels. */
    resize(width, height, ratio) {
        if (this.width === width && this.height === height && this.ratio === ratio) return;
        Object.assign(this, {width, height, ratio});
        this.renderer.setPixelRatio(ratio);
        this.renderer.setSize(width, height, false);
    }

    /** Draw all points or the thinned ones into panels: [{x, y (of the lower left corner), weight, absolute, range, map}]. */
    paint(lens, thinned, panels) {
        const {renderer} = this;
        renderer.setScissorTest(false);
        renderer.setRenderTarget(null);
        renderer.clear();
        let kept = null;
        for (const panel of panels) {
            const largest = this.picture.dim === 3 && panel.map === "error" ? panel.range[1] : 0;
            const needed = largest ? `${panel.weight} ${largest}` : "";
            if (kept !== needed) this.#place(lens, thinned, panel.weight, largest);
            kept = needed;
            this.#color(lens, panel);
        }
    }

    #place(lens, thinned, weight, largest) {
        const {renderer, placing, kinds, picture, finer, ratio} = this;
        const held = this.#geometries.get(picture);
        const thin = thinned ? picture.thin : null;
        const name = (thin ? thin.triangles : held.full) ? "mesh" : picture.dim === 3 ? "space" : "plane";
        for (const each of Object.keys(kinds)) kinds[each].visible = each === name;
        kinds[name].geometry = held.geometry;
        kinds[name].material.uniformsNeedUpdate = true;
        held.geometry.setIndex(thin ? held.thin : held.full);
        for (const name of ["center", "right", "up", "toward"]) placing[name].value = lens[name];
        placing.scale.value = [(2 * lens.pixels[0]) / lens.width, (2 * lens.pixels[1]) / lens.height];
        placing.pixels.value = Math.max(...lens.pixels) * ratio * finer;
        placing.least.value = thin ? 2.4 * thin.size : 0;
        [placing.weight.value, placing.largest.value] = [weight, largest];
        const size = [lens.width, lens.height].map((each) => Math.max(1, Math.round(each * ratio) * finer));
        this.kept.setSize(...size);
        renderer.setRenderTarget(this.kept);
        renderer.clear();
        renderer.render(this.scene, nowhere);
        renderer.setRenderTarget(null);
    }

    #color(lens, {x, y, weight, absolute, range, map}) {
        const {renderer, coloring, ratio} = this;
        Object.assign(coloring.weight, {value: weight});
        [coloring.range.value, coloring.absolute.value, coloring.map.value] = [range, absolute, this.#texture(map)];
        coloring.corner.value = [Math.round(x * ratio), Math.round(y * ratio)];
        this.sheet.children[0].material.uniformsNeedUpdate = true;
        renderer.setViewport(x, y, lens.width, lens.height);
        renderer.setScissor(x, y, lens.width, lens.height);
        renderer.setScissorTest(true);
        renderer.render(this.sheet, nowhere);
        renderer.setScissorTest(false);
    }

    #texture(map) {
        const table = colorTable(map);
        if (!this.maps.has(table)) {
            const texture = new DataTexture(table, LEVELS, 1);
            texture.needsUpdate = true;
            this.maps.set(table, texture);
        }
        return this.maps.get(table);
    }
}
