// The packages live outside the source tree, where a bare `import` does not look.
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const home = process.env.WHARF_FOREIGN ?? fileURLToPath(new URL('../../target/foreign', import.meta.url));
const require = createRequire(resolve(home, 'package.json'));
export function load(name) {
    try {
        return require(name);
    } catch (error) {
        console.error(`cannot load ${name} from ${home}: run \`cargo xtask foreign\` first (${error.message})`);
        process.exit(2);
    }
}
