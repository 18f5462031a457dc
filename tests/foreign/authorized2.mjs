// npm `@modelcontextprotocol/client`, the second TypeScript SDK, at a protected server: both eras, and DPoP.
import assert from 'node:assert/strict';
import { Person, run } from './authorized.mjs';
import { era, load, url } from './target.mjs';

const { Client, DpopSession, StreamableHTTPClientTransport, UnauthorizedError } = load('@modelcontextprotocol/client');
const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';

function open(person) {
    return {
        client: new Client({ name: 'foreign-sdk2', version: '1.0.0' }, { versionNegotiation: { mode } }),
        transport: new StreamableHTTPClientTransport(url, { authProvider: person }),
    };
}

const finish = (transport, callback) => transport.finishAuth(callback);

await run({
    Unauthorized: UnauthorizedError,
    open,
    finish,
    // The OAuth proxy does not bind tokens to keys.
    more: process.env.AUTH_BEARER_ONLY ? {} : {
        'a token that is bound to a key': async () => {
            const session = await DpopSession.create();
            const person = new Person({ dpop: () => session });
            const first = open(person);
            await assert.rejects(first.client.connect(first.transport), UnauthorizedError);
            await finish(first.transport, person.callback);
            assert.equal(person.kept.token_type, 'DPoP');
            const { client, transport } = open(person);
            await client.connect(transport);
            const { content } = await client.callTool({ name: 'whoami', arguments: {} });
            assert.match(content[0].text, /^ada: /);
            await client.close();
        },
    },
});
