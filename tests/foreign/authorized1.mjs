// npm `@modelcontextprotocol/sdk`, the first TypeScript SDK, at a protected server: the legacy era only.
import { run } from './authorized.mjs';
import { load, url } from './target.mjs';

const { UnauthorizedError } = load('@modelcontextprotocol/sdk/client/auth.js');
const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');

await run({
    Unauthorized: UnauthorizedError,
    open: person => ({
        client: new Client({ name: 'foreign-sdk1', version: '1.0.0' }),
        transport: new StreamableHTTPClientTransport(url, { authProvider: person }),
    }),
    // With a refresh token this SDK would only refresh, which adds no scopes.
    beforeMore: person => delete person.kept.refresh_token,
    finish: (transport, callback) => transport.finishAuth(callback.get('code')),
});
