// npm `oidc-provider`, a certified authorization server, for the tests: the user is always `ada`, who consents at once.
//
// It prints its URLs on stderr: `issuer URL`, then `control URL`.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { home } from '../packages.mjs';
import { control } from './authorization_control.mjs';
import { newKey, options } from './authorization_options.mjs';

const inPackage = path => import(pathToFileURL(resolve(home, 'node_modules/oidc-provider/lib', path)));
const [{ Provider, errors }, { createMemoryAdapter }] = await Promise.all([
    inPackage('index.js'),
    inPackage('adapters/memory_adapter.js'),
]);

/** State that the tests change at run time. */
const state = {
    settings: {
        ttl: 3600, // how long an access token lives, in seconds
        format: 'jwt', // or `opaque`, which can be revoked and introspected
        nonce: false, // whether every DPoP proof must carry a nonce
        deny: false, // whether Ada refuses
        refresh: true, // whether there are refresh tokens
    },
    keys: [newKey()],
    seen: [],
    storage: forgetful(createMemoryAdapter()),
};

/** Storage that drops the scopes of a registration, so that clients can request others, as most servers allow. */
function forgetful(storage) {
    return model => {
        const adapter = storage(model);
        if (model !== 'Client') return adapter;
        const upsert = adapter.upsert.bind(adapter);
        return Object.assign(adapter, { upsert: (id, { scope, ...client }, ttl) => upsert(id, client, ttl) });
    };
}

const server = createServer((request, response) => state.answer(request, response));
await once(server.listen(Number(process.env.PORT ?? 0), '127.0.0.1'), 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

/** Replaces the provider by one with the current keys; issued tokens stay valid. */
state.restart = () => {
    const provider = new Provider(issuer, options(state, errors));
    provider.use(see);
    const callback = provider.callback();
    state.answer = (request, response) =>
        request.url.startsWith('/interaction/') ? consent(provider, request, response) : callback(request, response);
};
state.restart();

/** Records each request with the status and error of its response. */
async function see(context, next) {
    await next();
    const { method, path, status, body, headers } = context;
    const params = { ...(context.oidc?.params ?? context.oidc?.body) };
    const said = { error: body?.error, description: body?.error_description };
    const authorization = headers.authorization?.split(' ')[0];
    state.seen.push({ method, path, status, params, dpop: 'dpop' in headers, authorization, ...said });
}

/** Signs in as `ada`, and consents to everything or nothing. */
async function consent(provider, request, response) {
    try {
        const { prompt, params, grantId, session } = await provider.interactionDetails(request, response);
        const decide = { login, consent: agree }[prompt.name];
        const result = state.settings.deny
            ? { error: 'access_denied', error_description: 'Ada said no' }
            : await decide(provider, { prompt, params, grantId, session });
        await provider.interactionFinished(request, response, result);
    } catch (error) {
        response.writeHead(500).end(String(error));
    }
}

const login = async () => ({ login: { accountId: 'ada' } });

async function agree(provider, { prompt: { details }, params, grantId, session }) {
    const grant = grantId
        ? await provider.Grant.find(grantId)
        : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    if (details.missingOIDCScope) grant.addOIDCScope(details.missingOIDCScope.join(' '));
    for (const [resource, scopes] of Object.entries(details.missingResourceScopes ?? {})) {
        grant.addResourceScope(resource, scopes.join(' '));
    }
    return { consent: { grantId: await grant.save() } };
}

const controlled = createServer(control(state));
await once(controlled.listen(0, '127.0.0.1'), 'listening');
console.error(`issuer ${issuer}`);
console.error(`control http://127.0.0.1:${controlled.address().port}`);
// Exits with its parent process.
process.stdin.on('end', () => process.exit(0)).resume();
