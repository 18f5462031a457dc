// Loader of packages outside the source tree, where a bare `import` does not find them.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const home = process.env.WHARF_FOREIGN ?? fileURLToPath(new URL('../../target/foreign', import.meta.url));
const require = createRequire(resolve(home, 'package.json'));

/** File of a subpath of a package that contains only ES modules. */
export function find(name, part) {
    const { exports } = JSON.parse(readFileSync(resolve(home, 'node_modules', name, 'package.json'), 'utf8'));
    return resolve(home, 'node_modules', name, exports[`./${part}`].import);
}

export function load(name) {
    try {
        return require(name);
    } catch (error) {
        console.error(`cannot load ${name} from ${home}: run \`cargo xtask foreign\` first (${error.message})`);
        process.exit(2);
    }
}
