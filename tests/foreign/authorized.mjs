// Checks of both TypeScript clients at a protected server, with the OAuth code of their own SDK.
//
// The server has the tools `whoami`, for which any token suffices, `read_file` (files:read) and `write_file`
// (files:write).
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { url } from './target.mjs';
import { visit } from './visit.mjs';

const CHECK_MS = 20_000;

/** OAuth client provider of the SDKs: stores tokens, and acts as the consenting user. */
export class Person {
    redirectUrl = 'http://127.0.0.1:7/callback'; // no listener: the test reads the redirect
    visits = [];

    constructor(methods = {}) {
        Object.assign(this, methods);
    }
    get clientMetadata() {
        return {
            client_name: 'foreign',
            redirect_uris: [this.redirectUrl],
            grant_types: ['authorization_code', 'refresh_token'],
            response_types: ['code'],
            token_endpoint_auth_method: 'none',
        };
    }
    state() {
        return (this.sent = crypto.randomUUID());
    }
    clientInformation() {
        return this.client;
    }
    saveClientInformation(client) {
        this.client = client;
    }
    tokens() {
        return this.kept;
    }
    saveTokens(tokens) {
        this.kept = tokens;
    }
    saveCodeVerifier(verifier) {
        this.verifier = verifier;
    }
    codeVerifier() {
        return this.verifier;
    }
    saveDiscoveryState(state) {
        this.discovered = state;
    }
    discoveryState() {
        return this.discovered;
    }
    async redirectToAuthorization(to) {
        this.visits.push(to);
        this.callback = (await visit(to)).searchParams;
        assert.equal(this.callback.get('state'), this.sent, 'the state came back changed');
    }
    scopes() {
        return this.kept.scope.split(' ').sort().join(' ');
    }
}

/** Sends a request to the control endpoint of the authorization server. */
export async function tell(path, what = {}) {
    const response = await fetch(new URL(path, process.env.AUTH_CONTROL), { method: 'POST', body: JSON.stringify(what) });
    assert.equal(response.status, 200, await response.clone().text());
    return response.json();
}

/** Invalidates the access token, so that the server rejects it like an expired one. */
function spoil(person) {
    person.kept = { ...person.kept, access_token: `${person.kept.access_token.slice(0, -8)}AAAAAAAA` };
}

/** Runs all checks with `driver`: {open(person), finish(transport, callback), Unauthorized, beforeMore(person), more}. */
export async function run(driver) {
    const person = new Person();
    let client;
    let transport;

    /** Runs `act`, and retries it after the user has consented, as the SDKs require. */
    async function authorized(act) {
        try {
            return await act();
        } catch (error) {
            if (!(error instanceof driver.Unauthorized)) throw error;
            await driver.finish(transport, person.callback);
            return act();
        }
    }
    async function connect() {
        ({ client, transport } = driver.open(person));
        await client.connect(transport);
    }
    const text = async (name, input = {}) => {
        const result = await client.callTool({ name, arguments: input });
        assert.ok(!result.isError, JSON.stringify(result));
        return result.content[0].text;
    };

    const checks = {
        'a stranger is sent away, and comes back with a token': async () => {
            await authorized(connect);
            assert.equal(person.visits.length, 1);
            const asked = person.visits[0].searchParams;
            assert.equal(asked.get('resource'), String(url));
            assert.equal(asked.get('code_challenge_method'), 'S256');
            assert.equal(person.kept.token_type, 'Bearer');
        },
        'the handler knows the caller': async () => assert.match(await text('whoami'), /^ada: /),
        'one scope is enough for one tool': async () => assert.equal(await text('read_file', { name: 'log' }), 'log, as ada read it'),
        'what the caller may not do is not listed': async () => {
            const { tools } = await client.listTools();
            assert.deepEqual(tools.map(tool => tool.name).sort(), ['read_file', 'whoami']);
        },
        'more is asked for when more is needed': async () => {
            const { scope } = person.kept;
            assert.equal(scope, 'files:read');
            driver.beforeMore?.(person);
            assert.equal(await authorized(() => text('write_file', { name: 'log' })), 'log, as ada wrote it');
            assert.equal(person.visits.length, 2);
            assert.equal(person.scopes(), 'files:read files:write');
        },
        'an old token is exchanged for a new one, and nobody is asked': async () => {
            const spent = person.kept.refresh_token;
            spoil(person);
            assert.match(await text('whoami'), /^ada: /);
            assert.equal(person.visits.length, 2);
            assert.notEqual(person.kept.refresh_token, spent, 'the refresh token was not rotated');
        },
        'a new key locks nobody out': async () => {
            await tell('/keys', { keep: true });
            spoil(person);
            // The next token is signed with a key that the server has not fetched yet.
            assert.match(await text('whoami'), /^ada: /);
            assert.equal(person.visits.length, 2);
        },
        ...driver.more,
        'close': () => client.close(),
    };

    let failed = 0;
    for (const [name, body] of Object.entries(checks)) {
        const late = pause(CHECK_MS, undefined, { ref: false }).then(() => assert.fail(`no answer in ${CHECK_MS} ms`));
        try {
            await Promise.race([body(), late]);
            console.log(`ok ${name}`);
        } catch (error) {
            failed += 1;
            console.log(`FAIL ${name}: ${error.stack}`);
        }
    }
    process.exit(failed ? 1 : 0);
}
