// The modern era (2026-07-28), with npm `@modelcontextprotocol/client`.
import assert from 'node:assert/strict';
import { args, capabilities, command, load, reply, run } from './checks.mjs';

const { Client, LOG_LEVEL_META_KEY } = load('@modelcontextprotocol/client');
const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');

function connected(mode) {
    const transport = new StdioClientTransport({ command, args });
    const client = new Client({ name: 'foreign-modern', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler('elicitation/create', ({ params }) => reply('elicitation', params));
    client.setRequestHandler('sampling/createMessage', ({ params }) => reply('sampling', params));
    client.setRequestHandler('roots/list', ({ params }) => reply('roots', params));
    return { client, transport, connect: () => client.connect(transport) };
}

const { client, transport, connect } = connected('auto');

await run({
    era: 'modern',
    client,
    transport,
    async connect() {
        await connect();
        assert.equal(client.getProtocolEra(), 'modern');
        assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
    },
    call: (name, input, { meta, ...options }) => client.callTool({ name, arguments: input, _meta: meta }, options),
    logs: level => ({ [LOG_LEVEL_META_KEY]: level }),
    async watch(uri) {
        const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
        const { toolsListChanged, resourceSubscriptions } = subscription.honoredFilter;
        assert.deepEqual([toolsListChanged, resourceSubscriptions], [true, [uri]]);
        return () => subscription.close();
    },
    more: {
        'no logs unless asked for': async () => {
            let logs = 0;
            client.setNotificationHandler('notifications/message', () => void (logs += 1));
            await client.callTool({ name: 'countdown', arguments: { from: 2 } });
            assert.equal(logs, 0);
        },
        'connect with the revision pinned': async () => {
            const pinned = connected({ pin: '2026-07-28' });
            await pinned.connect();
            assert.ok((await pinned.client.listTools()).tools.length > 0);
            await pinned.client.close();
        },
    },
});
