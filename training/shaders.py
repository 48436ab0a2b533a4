"""GLSL programs of the head renderer. Materials: 0 skin, 1 eye, 2 teeth, 3 tongue, 4 hair, 5 clothes."""

_RIG = """
uniform mat4 projection; uniform vec3 eye; uniform mat3 turn; uniform vec3 shift; uniform float eye_height;
float rig_weight(float y) { float w = clamp((y - (eye_height - 1.55)) / .62, 0., 1.); return w * w * (3. - 2. * w); }
vec3 rig(vec3 p, float w) {
  vec3 pivot = vec3(0, eye_height - .95, .05);
  return p + w * (turn * (p - pivot) + pivot + shift - p);
}
"""

_TO_FRAGMENT = """
out vec3 world; out vec3 axis; out vec2 uv; out vec4 rest; flat out int material;
"""

SKIN_VERTEX = (
    "#version 330\nin vec3 position; in vec3 normal; in vec2 texcoord; in vec4 extra; in float kind;\n"
    + _RIG
    + _TO_FRAGMENT
    + """
void main() {
  float w = rig_weight(position.y);
  world = rig(position, w); axis = mix(normal, turn * normal, w);
  uv = texcoord; rest = extra; material = int(kind);
  gl_Position = projection * vec4(world - eye, 1);
}"""
)

RIBBON_VERTEX = (
    "#version 330\nin vec3 position; in vec3 tangent; in vec4 extra; in vec2 side_width;\n"
    + _RIG
    + _TO_FRAGMENT
    + """
void main() {
  float w = rig_weight(position.y);
  vec3 q = rig(position, w); vec3 along = normalize(mix(tangent, turn * tangent, w));
  vec3 across = normalize(cross(along, eye - q)); q += across * side_width.x * side_width.y;
  world = q; axis = along; uv = vec2(0); rest = extra; material = 4;
  gl_Position = projection * vec4(q - eye, 1);
}"""
)

FRAGMENT = """#version 330
in vec3 world; in vec3 axis; in vec2 uv; in vec4 rest; flat in int material; out vec4 colour;
uniform sampler2D lips_mask; uniform sampler2D mouth_mask;
uniform vec3 skin, lip, iris, cloth, shirt, hair, ambient, eye;
uniform vec3 lights[3]; uniform vec3 light_colours[3];
uniform float eye_height, seed, teeth, mouth_front, neckline, beard, freckles, shine;
float hash(vec3 x) { x = fract(x * .3183099 + .1) * 17.; return fract(x.x * x.y * x.z * (x.x + x.y + x.z)); }
float noise(vec3 x) {
  vec3 i = floor(x), f = fract(x); f = f * f * (3. - 2. * f);
  vec4 a = vec4(hash(i), hash(i + vec3(1,0,0)), hash(i + vec3(0,1,0)), hash(i + vec3(1,1,0)));
  vec4 b = vec4(hash(i + vec3(0,0,1)), hash(i + vec3(1,0,1)), hash(i + vec3(0,1,1)), hash(i + vec3(1,1,1)));
  vec4 m = mix(a, b, f.z); vec2 n = mix(m.xz, m.yw, f.x); return mix(n.x, n.y, f.y);
}
vec3 skin_colour(vec3 q, inout float gloss) {
  vec2 at = vec2(uv.x, 1. - uv.y); float l = texture(lips_mask, at).r, m = texture(mouth_mask, at).r;
  vec3 c = mix(skin, skin * vec3(1., .68, .66), rest.w);
  c *= .9 + .14 * noise(q * 6. + seed) + .06 * noise(q * 23. + seed);
  c *= mix(vec3(1), vec3(.88, .74, .68), smoothstep(.62, .85, noise(q * 40. + seed)) * freckles);
  float jaw = smoothstep(eye_height - .42, eye_height - .6, q.y)
    * smoothstep(eye_height - 1.35, eye_height - 1.05, q.y);
  jaw *= smoothstep(.35, .75, q.z);
  c *= 1. - beard * jaw * (1. - l) * (.35 + .35 * noise(q * vec3(90., 30., 90.)));
  c *= mix(.62, 1., smoothstep(eye_height - 1.5, eye_height - 1.02, q.y + .25 * (q.z - .8)));
  c = mix(c, lip * (.85 + .3 * noise(q * vec3(60., 12., 60.))), l);
  gloss = mix(shine, .45, l);
  float depth = smoothstep(mouth_front - .6, mouth_front, world.z);
  c = mix(c, vec3(.16, .03, .035) * (.25 + .75 * depth), m);
  if (m > .5) gloss = .1;
  return c;
}
vec3 eye_colour(vec3 q) {
  float angle = rest.w; vec3 c = mix(iris * (.7 + .8 * noise(q * 60.)), vec3(.012), smoothstep(.38, .46, angle));
  c = mix(c, vec3(.64, .60, .57), smoothstep(.455, .5, angle));
  return mix(vec3(.004), c, smoothstep(.2, .225, angle));
}
vec3 teeth_colour() {
  float x = abs(rest.x), groove = smoothstep(0., .22, abs(sin(x * 31. + 1.57)));
  float inward = smoothstep(mouth_front - .42, mouth_front - .07, rest.z), sides = 1. - smoothstep(.08, .26, x);
  return vec3(.70, .65, .57) * (.7 + .3 * groove) * teeth * (.12 + .88 * inward) * (.45 + .55 * sides);
}
bool cloth_colour(vec3 q, out vec3 c) {
  c = cloth * (.88 + .12 * noise(q * 30.) + .1 * noise(q * 5. + seed)); float x = abs(rest.x), above = rest.y - rest.w;
  if (rest.z > 0. && above > x * 2.3 + neckline) {
    c = shirt;
    if (above > neckline + .83 + 2.2 * x * x) return false; }
  return true;
}
vec3 hair_light(vec3 t, vec3 view, vec3 base) {
  vec3 sum = ambient * base;
  for (int i = 0; i < 3; i++) {
    vec3 l = normalize(lights[i] - world); float tl = dot(t, l), tv = dot(t, view), s = sqrt(max(0., 1. - tl * tl));
    float gleam = pow(max(0., s * sqrt(max(0., 1. - tv * tv)) - tl * tv), 40.);
    sum += light_colours[i] * clamp(dot(normalize(rest.xyz), l) * .6 + .5, 0., 1.) * (base * s + vec3(.22) * gleam);
  }
  return sum;
}
void main() {
  vec3 view = normalize(eye - world), q = rest.xyz, c = skin, lit; float gloss = .2, tight = 24., wrap = .35;
  vec3 bleed = vec3(1., .55, .42);
  if (material == 4) lit = hair_light(normalize(axis), view, hair * (.6 + .8 * rest.w));
  else {
    vec3 n = normalize(axis); if (dot(n, view) < 0.) n = -n;
    if (material == 0) c = skin_colour(q, gloss);
    else if (material == 1) { c = eye_colour(q); gloss = 1.5; tight = 180.; wrap = .2; bleed = vec3(1); }
    else if (material == 2) { c = teeth_colour(); gloss = .12 * teeth; bleed = vec3(1); }
    else if (material == 3) { c = vec3(.26, .08, .08)
      * (.3 + .7 * smoothstep(mouth_front - .5, mouth_front, rest.z)); gloss = .15; }
    else { if (!cloth_colour(q, c)) discard; gloss = .05; bleed = vec3(1); }
    lit = ambient * c * (.65 + .35 * n.y);
    for (int i = 0; i < 3; i++) {
      vec3 l = normalize(lights[i] - world); float d = dot(n, l);
      vec3 soft = clamp((vec3(d) + wrap * bleed) / (1. + wrap * bleed), 0., 1.); soft *= soft * .3 + .7;
      float spot = pow(max(dot(n, normalize(l + view)), 0.), tight) * gloss;
      float edge = material == 2 || material == 3 ? 0. : pow(1. - max(dot(n, view), 0.), 4.) * .25 * max(d, 0.);
      lit += light_colours[i] * (c * soft + vec3(spot + edge));
    }
  }
  lit = lit / (1. + lit * .35); colour = vec4(pow(clamp(lit, 0., 1.), vec3(1. / 2.2)), 1);
}"""

BACKGROUND_VERTEX = """#version 330
in vec2 corner; out vec2 at; void main() { at = corner * .5 + .5; gl_Position = vec4(corner, .999, 1); }"""
BACKGROUND_FRAGMENT = """#version 330
in vec2 at; out vec4 colour; uniform sampler2D background;
  void main() { colour = vec4(texture(background, at).rgb, 1); }"""
