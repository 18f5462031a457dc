// Control endpoint of the authorization server for the tests: JSON by POST to a separate port.
import { json } from 'node:stream/consumers';
import { visit } from '../visit.mjs';
import { newKey } from './authorization_options.mjs';

export function control(state) {
    const routes = {
        /** Changes settings. */
        '/settings': changes => Object.assign(state.settings, changes),
        /** Rotates the signing key; the old keys stay published only with `keep`. */
        '/keys': ({ keep }) => {
            // The first suitable key signs.
            state.keys = [newKey(), ...(keep ? state.keys : [])];
            state.restart();
            return { kid: state.keys[0].kid };
        },
        /** Registers a client statically. */
        '/clients': async client => {
            await state.storage('Client').upsert(client.client_id, client);
            return client;
        },
        /** Visits a URL like a browser; returns the final redirect. */
        '/visit': async ({ url }) => ({ location: String(await visit(url)) }),
        /** Takes the requests since the last call. */
        '/seen': () => state.seen.splice(0),
    };
    return async (request, response) => {
        try {
            const answer = await routes[request.url](await json(request));
            response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
        } catch (error) {
            response.writeHead(500).end(error.stack);
        }
    };
}
