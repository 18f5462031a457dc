// Configuration of `oidc-provider`.
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';

const DAY = 86_400;
const SCOPES = ['files:read', 'files:write', 'notes:read', 'notes:write'];
const secrets = { cookies: [randomBytes(16).toString('hex')], nonce: randomBytes(32) };

export function newKey() {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'ES256', use: 'sig' };
}

export function options({ settings, keys, storage }, errors) {
    return {
        adapter: storage,
        jwks: { keys },
        cookies: { keys: secrets.cookies },
        // A client registers the scopes of any resource, so this server supports all of them.
        scopes: ['openid', 'offline_access', ...SCOPES],
        clientDefaults: {
            application_type: 'native', // so that it may be redirected to loopback
            grant_types: ['authorization_code', 'refresh_token'],
            id_token_signed_response_alg: 'ES256',
            response_types: ['code'],
            token_endpoint_auth_method: 'client_secret_basic',
        },
        features: {
            devInteractions: { enabled: false },
            clientCredentials: { enabled: true },
            dPoP: { enabled: true, nonceSecret: secrets.nonce, requireNonce: () => settings.nonce },
            introspection: { enabled: true, allowedPolicy: async () => true },
            registration: { enabled: true },
            resourceIndicators: {
                enabled: true,
                getResourceServerInfo: async (_context, resource) => resourceServer(settings, resource, errors),
                useGrantedResource: async () => true,
            },
            revocation: {
                enabled: true,
                allowedPolicy: async (_context, client, token) => token.clientId === client.clientId,
            },
        },
        ttl: {
            AccessToken: () => settings.ttl, ClientCredentials: () => settings.ttl,
            Grant: DAY, Interaction: DAY, RefreshToken: DAY, Session: DAY,
        },
        interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
        findAccount: (_context, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
        extraTokenClaims: async () => ({ roles: ['captain'] }),
        issueRefreshToken: async (_context, client) => settings.refresh && client.grantTypeAllowed('refresh_token'),
        expiresWithSession: async () => false,
        rotateRefreshToken: true,
        pkce: { required: () => true },
    };
}

function resourceServer({ format, ttl }, resource, errors) {
    if (!/^https?:/.test(resource)) throw new errors.InvalidTarget();
    return {
        scope: SCOPES.join(' '),
        audience: resource,
        accessTokenTTL: ttl,
        accessTokenFormat: format,
        ...(format === 'jwt' && { jwt: { sign: { alg: 'ES256' } } }),
    };
}
