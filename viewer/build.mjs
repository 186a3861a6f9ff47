// Builds the committed asset calm_pde/report/page/ from the sources here: `npm ci && npm run build`.
import {build} from "esbuild";
import {copyFile, mkdir, readFile, writeFile} from "node:fs/promises";
import {fileURLToPath} from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = fileURLToPath(new URL("../calm_pde/report/page/", import.meta.url));

// Our materials bring their own GLSL, and no headset looks at a report: three.js's shader library and WebXR stay out.
const left_out = {
    name: "left-out",
    setup(bundler) {
        bundler.onLoad({filter: /[\\/]three[\\/]src[\\/].*\.glsl\.js$/}, () => ({
            contents: 'export default ""; export const vertex = "", fragment = "";',
        }));
        bundler.onLoad({filter: /[\\/]three[\\/]src[\\/]renderers[\\/]webxr[\\/]WebXRManager\.js$/}, () => ({
            contents: `export class WebXRManager {
                enabled = false; isPresenting = false; cameraAutoUpdate = false;
                addEventListener() {} removeEventListener() {} setAnimationLoop() {} dispose() {} getCamera() {}
                getDepthSensingMesh() { return null; } hasDepthSensing() { return false; } getEnvironmentBlendMode() {}
            }`,
        }));
    },
};

await mkdir(target, {recursive: true});
const shared = {bundle: true, minify: true, write: false, legalComments: "none", charset: "ascii", logLevel: "warning"};
const script = await build({
    ...shared,
    entryPoints: [here + "src/page.js"],
    alias: {three: here + "node_modules/three/src/Three.js"},
    format: "iife",
    target: ["chrome103", "firefox113", "safari16.4"],
    plugins: [left_out],
});
const style = await build({...shared, entryPoints: [here + "style.css"]});

const js = script.outputFiles[0].text;
for (const forbidden of [/<\/script/i, /<!--/]) {
    if (forbidden.test(js)) throw new Error(`page.js holds ${forbidden}, which would end or hide the script in the page`);
}
if (/<\/style/i.test(style.outputFiles[0].text)) throw new Error("page.css would end its own element");
await writeFile(target + "page.js", js);
await writeFile(target + "page.css", style.outputFiles[0].text);
await copyFile(here + "page.html", target + "page.html");

const licenses = [];
for (const name of ["three", "uplot"]) {
    const {version, homepage} = JSON.parse(await readFile(`${here}node_modules/${name}/package.json`, "utf8"));
    const text = await readFile(`${here}node_modules/${name}/LICENSE`, "utf8");
    licenses.push(`${name} ${version} (${homepage})\n\n${text.trim()}\n`);
}
const head = "page.js and page.css contain parts of the following packages.\n";
await writeFile(target + "LICENSES.txt", [head, ...licenses].join(`\n${"-".repeat(80)}\n\n`));
console.log(`page.js ${(js.length / 1000).toFixed(0)} kB, page.css ${(style.outputFiles[0].text.length / 1000).toFixed(0)} kB`);
