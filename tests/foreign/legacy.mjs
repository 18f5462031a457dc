// The legacy era, with npm `@modelcontextprotocol/sdk`.
import assert from 'node:assert/strict';
import { args, capabilities, command, load, reply, run } from './checks.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
const types = load('@modelcontextprotocol/sdk/types.js');

const transport = new StdioClientTransport({ command, args });
const client = new Client({ name: 'foreign-legacy', version: '1.0.0' }, { capabilities });
client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => reply('elicitation', params));
client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => reply('sampling', params));
client.setRequestHandler(types.ListRootsRequestSchema, ({ params }) => reply('roots', params));

await run({
    era: 'legacy',
    client,
    transport,
    connect: () => client.connect(transport),
    call: (name, input, options) => client.callTool({ name, arguments: input }, undefined, options),
    async logs(level) {
        await client.setLoggingLevel(level);
    },
    async watch(uri) {
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
    },
    more: {
        ping: async () => assert.deepEqual(await client.ping(), {}),
    },
});
