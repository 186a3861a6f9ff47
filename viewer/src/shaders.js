// The shaders. First the points go where the camera's lens says, and the two interpolated channels are kept, once for all
// panels; then each panel turns them into its values and looks its colors up, pixel by pixel.

export const placeVertex = `
precision highp float;
uniform vec2 center, scale;
uniform vec3 right, up, toward;
in vec3 position;
in vec2 channels;
out vec2 quantized;
#ifdef POINTS
uniform vec2 low, span, weight;
uniform float pixels, least, largest;
in float size;
flat out float diameter;
#endif
void main() {
    quantized = channels;
    gl_Position = vec4((vec2(dot(position, right), dot(position, up)) - center) * scale, -0.5 * dot(position, toward), 1.0);
#ifdef POINTS
    diameter = max(size, least) * pixels;
    // in space, where points hide each other, small errors are small points
    if (largest > 0.0) diameter *= mix(0.3, 1.3, clamp(abs(dot(weight, low + span * channels)) / largest, 0.0, 1.0));
    gl_PointSize = diameter = clamp(diameter, 1.5, 256.0);
#endif
}`;

// Two channels of 16 bits in four bytes; the first is never zero, which stands for "nothing here".
export const placeFragment = `
precision highp float;
in vec2 quantized;
#ifdef POINTS
flat in float diameter;
#endif
out vec4 bytes;
void main() {
#ifdef POINTS
    float away = length(gl_PointCoord - 0.5);
    if (away > 0.5) discard;
#ifdef PLANE
    gl_FragDepth = away * diameter / 256.0; // the nearest point wins, so that a cloud fills the plane with its nearest values
#endif
#endif
    vec2 whole = floor(clamp(quantized, 0.0, 1.0) * vec2(65534.0, 65535.0) + vec2(1.5, 0.5));
    vec2 high = floor(whole / 256.0);
    bytes = vec4(high, whole - 256.0 * high) / 255.0;
}`;

export const colorVertex = `
precision highp float;
in vec3 position;
void main() {
    gl_Position = vec4(position.xy, 0.0, 1.0);
}`;

export const colorFragment = `
precision highp float;
uniform vec2 low, span, weight, range, corner;
uniform bool absolute;
uniform int finer;
uniform sampler2D map, kept;
out vec4 color;
vec4 colorOf(vec4 bytes) {
    vec2 whole = floor(bytes.xy * 255.0 + 0.5) * 256.0 + floor(bytes.zw * 255.0 + 0.5);
    if (whole.x == 0.0) return vec4(0.0);
    float value = dot(weight, low + span * (whole - vec2(1.0, 0.0)) / vec2(65534.0, 65535.0));
    if (absolute) value = abs(value);
    float place = clamp((value - range.x) / (range.y - range.x), 0.0, 1.0);
    return texture(map, vec2((place * 255.0 + 0.5) / 256.0, 0.5));
}
void main() {
    ivec2 at = ivec2(gl_FragCoord.xy - corner) * finer;
    color = vec4(0.0);
    for (int i = 0; i < finer; i++) for (int j = 0; j < finer; j++) color += colorOf(texelFetch(kept, at + ivec2(i, j), 0));
    color /= float(finer * finer);
}`;
