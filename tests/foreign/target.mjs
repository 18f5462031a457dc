// Arguments of a driver: the era, and the server to start or the address to connect to.
export { find, home, load } from './packages.mjs';

const ERAS = { '--legacy': 'legacy', '--modern': 'modern' };
const [flag, first, ...rest] = process.argv.slice(2);
export const era = ERAS[flag];
if (!era || !first) {
    console.error('usage: node SCRIPT --legacy|--modern URL, or instead of the URL: SERVER [ARGUMENT ...]');
    process.exit(2);
}

export const command = first;
export const args = rest;
export const url = /^(http|ws):/.test(first) ? new URL(first) : undefined;
export const over = transport();

function transport() {
    if (!url) return 'stdio';
    if (url.protocol === 'ws:') return 'websocket';
    return url.pathname === '/sse' ? 'sse' : 'http';
}
