// npm `@modelcontextprotocol/client`, the second TypeScript SDK: both eras.
import assert from 'node:assert/strict';
import { capabilities, reply, run } from './checks.mjs';
import { args, command, era, load, over, url } from './target.mjs';

const { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');
// This SDK has no WebSocket transport, but accepts that of the first SDK.
const { WebSocketClientTransport } = load('@modelcontextprotocol/sdk/client/websocket.js');

const transports = {
    stdio: () => new StdioClientTransport({ command, args }),
    http: at => new StreamableHTTPClientTransport(at),
    websocket: at => new WebSocketClientTransport(at),
};

function open(at = url, mode = era === 'modern' ? 'auto' : 'legacy') {
    const transport = transports[over](at);
    const client = new Client({ name: 'foreign-sdk2', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler('elicitation/create', ({ params }) => reply('elicitation', params));
    client.setRequestHandler('sampling/createMessage', ({ params }) => reply('sampling', params));
    client.setRequestHandler('roots/list', ({ params }) => reply('roots', params));
    return { client, transport };
}

const { client, transport } = open();

const legacy = {
    async logs(level) {
        await client.setLoggingLevel(level);
    },
    async watch(uri) {
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
    },
    more: {
        revision: () => assert.equal(client.getNegotiatedProtocolVersion(), '2025-11-25'),
        ping: async () => assert.deepEqual(await client.ping(), {}),
    },
};

const modern = {
    logs: level => ({ [LOG_LEVEL_META_KEY]: level }),
    async watch(uri) {
        const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
        const { toolsListChanged, resourceSubscriptions } = subscription.honoredFilter;
        assert.deepEqual([toolsListChanged, resourceSubscriptions], [true, [uri]]);
        return () => subscription.close();
    },
    more: {
        'revision': () => {
            assert.equal(client.getProtocolEra(), 'modern');
            assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
        },
        'no logs unless asked for': async () => {
            let logs = 0;
            client.setNotificationHandler('notifications/message', () => void (logs += 1));
            await client.callTool({ name: 'countdown', arguments: { from: 2 } });
            assert.equal(logs, 0);
        },
        'connect with the revision pinned': async () => {
            const pinned = open(url, { pin: '2026-07-28' });
            await pinned.client.connect(pinned.transport);
            assert.ok((await pinned.client.listTools()).tools.length > 0);
            await pinned.client.close();
        },
    },
};

await run({
    open,
    client,
    transport,
    call: (client, name, input, { meta, ...options }) =>
        client.callTool({ name, arguments: input, _meta: meta }, options),
    ...(era === 'modern' ? modern : legacy),
});
