// npm `@modelcontextprotocol/sdk`, the first TypeScript SDK: the legacy era only.
import assert from 'node:assert/strict';
import { capabilities, reply, run } from './checks.mjs';
import { args, command, load, over, url } from './target.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
const { SSEClientTransport } = load('@modelcontextprotocol/sdk/client/sse.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { WebSocketClientTransport } = load('@modelcontextprotocol/sdk/client/websocket.js');
const types = load('@modelcontextprotocol/sdk/types.js');

const transports = {
    stdio: () => new StdioClientTransport({ command, args }),
    http: at => new StreamableHTTPClientTransport(at),
    sse: at => new SSEClientTransport(at),
    websocket: at => new WebSocketClientTransport(at),
};

function open(at = url) {
    const transport = transports[over](at);
    const client = new Client({ name: 'foreign-sdk1', version: '1.0.0' }, { capabilities });
    client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => reply('elicitation', params));
    client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => reply('sampling', params));
    client.setRequestHandler(types.ListRootsRequestSchema, ({ params }) => reply('roots', params));
    return { client, transport };
}

const { client, transport } = open();

await run({
    open,
    client,
    transport,
    call: (client, name, input, options) => client.callTool({ name, arguments: input }, undefined, options),
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
