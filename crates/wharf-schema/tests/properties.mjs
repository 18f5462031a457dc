// Prints V8's Unicode properties: its Unicode version, the names that it rejects and the spans of code points
// that were queried, then a line for each set of code points with its names and ranges. The argument is a
// file of names.
import { readFileSync } from 'node:fs';

const names = readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean);
// Planes 4 to 13 have no characters, 15 and 16 are private, so only their ends are queried. No surrogates.
const spans = [[0, 0xd7ff], [0xe000, 0x40100], [0xdff00, 0xe1000], [0xeff00, 0xf0100], [0xfff00, 0x100100], [0x10ff00, 0x10ffff]];
const codes = spans.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at));
const all = codes.map(code => String.fromCodePoint(code)).join('');
// Index in `codes` of the character at an index of `all`: a character after U+FFFF takes two code units.
const single = 0xf800;
const indexAt = at => (at < single ? at : single + (at - single) / 2);

const sets = new Map();
const refused = [];
for (const name of names) {
    let pattern;
    try {
        pattern = new RegExp(`\\p{${name}}+`, 'gu');
    } catch {
        refused.push(name);
        continue;
    }
    const ranges = [];
    for (let found = pattern.exec(all); found; found = pattern.exec(all)) {
        ranges.push(`${indexAt(found.index)}-${indexAt(pattern.lastIndex)}`);
    }
    const key = ranges.join(' ');
    sets.set(key, [...(sets.get(key) ?? []), name]);
}
console.log(process.versions.unicode);
console.log(refused.join(' '));
console.log(spans.map(([first, last]) => `${first}-${last}`).join(' '));
for (const [ranges, same] of sets) console.log(`${same.join(' ')}\t${ranges}`);
