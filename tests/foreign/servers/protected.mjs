// Protected server of npm `@modelcontextprotocol/server`, both eras: node protected.mjs ISSUER
// Its tools are described in `authorized.mjs`.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { home, load } from '../packages.mjs';

const {
    McpServer, OAuthError, OAuthErrorCode, createMcpHandler, getOAuthProtectedResourceMetadataUrl, oauthMetadataResponse,
    requireBearerAuth, requireScopes,
} = load('@modelcontextprotocol/server');
const { toNodeHandler } = load('@modelcontextprotocol/node');
const { z } = load('zod');
const { createRemoteJWKSet, jwtVerify } = await import(
    pathToFileURL(resolve(home, 'node_modules/jose/dist/webapi/index.js')));

const issuer = process.argv[2];
const oauthMetadata = await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json();
const keys = createRemoteJWKSet(new URL(oauthMetadata.jwks_uri), { cooldownDuration: 0 });

const listener = createServer((request, response) => nodeHandler(request, response));
await once(listener.listen(0, '127.0.0.1'), 'listening');
const resource = new URL(`http://127.0.0.1:${listener.address().port}/mcp`);

async function verifyAccessToken(token) {
    try {
        const { payload } = await jwtVerify(token, keys, { issuer, audience: resource.href, algorithms: ['ES256'] });
        const { client_id: clientId, scope, exp: expiresAt, sub } = payload;
        return { token, clientId, scopes: (scope ?? '').split(' '), expiresAt, resource, extra: { sub } };
    } catch (error) {
        throw new OAuthError(OAuthErrorCode.InvalidToken, error.message);
    }
}

function build() {
    const server = new McpServer({ name: 'foreign-protected', version: '1.0.0' });
    const who = context => context.http.authInfo.extra.sub;
    const say = text => ({ content: [{ type: 'text', text }] });
    const file = z.object({ name: z.string() });
    server.registerTool('whoami', { inputSchema: z.object({}) },
        (_, context) => say(`${who(context)}: ${context.http.authInfo.scopes.join(' ')}`));
    server.registerTool('read_file', { inputSchema: file }, ({ name }, context) => say(`${name}, as ${who(context)} read it`));
    const scopeChallenge = requireScopes('files:read', 'files:write');
    server.registerTool('write_file', { inputSchema: file, scopeChallenge }, ({ name }, context) => say(`${name}, as ${who(context)} wrote it`));
    return server;
}

const handler = createMcpHandler(build);
const gate = requireBearerAuth({
    verifier: { verifyAccessToken },
    requiredScopes: ['files:read'],
    resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
    expectedResource: resource,
});
const metadata = {
    oauthMetadata, resourceServerUrl: resource, scopesSupported: ['files:read', 'files:write'], dangerouslyAllowInsecureIssuerUrl: true,
};
const nodeHandler = toNodeHandler({
    async fetch(request, options) {
        const page = oauthMetadataResponse(request, metadata);
        if (page) return page;
        const authInfo = await gate(request);
        return authInfo instanceof Response ? authInfo : handler.fetch(request, { ...options, authInfo });
    },
});
console.error(resource.href);
process.stdin.on('end', () => process.exit(0)).resume();
