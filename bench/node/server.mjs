// Benchmark server on the TypeScript SDK.
//   server.mjs stdio TOOLS | http PORT TOOLS stateful|stateless|2026
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { load } from '../../tests/foreign/packages.mjs';

const { McpServer, createMcpHandler } = load('@modelcontextprotocol/server');
const z = load('zod');

const said = z.object({ text: z.string() });
const terms = z.object({ a: z.number().int(), b: z.number().int() });
const given = z.object({ n: z.number().int() });
const number = z.object({ result: z.number().int() });

const text = (text) => ({ content: [{ type: 'text', text }] });
const structured = (result) => ({ ...text(JSON.stringify({ result })), structuredContent: { result } });

function primeFactors(n) {
    let count = 0;
    for (let divisor = 2; divisor * divisor <= n; divisor += divisor === 2 ? 1 : 2) {
        while (n % divisor === 0) {
            n /= divisor;
            count += 1;
        }
    }
    return n > 1 ? count + 1 : count;
}

async function progress(context) {
    const call = context.mcpReq;
    const progressToken = call._meta?.progressToken;
    for (let progress = 1; progress <= 100; progress += 1) {
        await call.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
    }
    return text('done');
}

async function io({ n }) {
    await wait(1);
    const result = primeFactors(n);
    await wait(1);
    return structured(result);
}

function build(tools) {
    const server = new McpServer({ name: 'bench', version: '0.1.0' });
    const numbers = { inputSchema: given, outputSchema: number };
    server.registerTool('echo', { description: 'Returns its text.', inputSchema: said }, async ({ text: heard }) => text(heard));
    server.registerTool('add', { description: 'Adds two numbers.', inputSchema: terms, outputSchema: number }, async ({ a, b }) => structured(a + b));
    server.registerTool('progress', { description: 'Sends a hundred notifications.' }, progress);
    server.registerTool('noop', { description: 'Returns the number.', ...numbers }, async ({ n }) => structured(n));
    server.registerTool('compute', { description: 'Counts prime factors.', ...numbers }, async ({ n }) => structured(primeFactors(n)));
    server.registerTool('io', { description: 'Counts prime factors between two waits.', ...numbers }, io);
    server.registerResource('static', 'mem://static', { mimeType: 'text/plain' }, async () => ({ contents: [{ uri: 'mem://static', text: 'static' }] }));
    server.registerPrompt('hello', { description: 'A greeting.' }, async () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }] }));
    for (let i = 0; i < tools; i += 1) {
        server.registerTool(`tool_${i}`, { description: `Generated tool number ${i}`, inputSchema: said }, async ({ text: heard }) => text(heard));
    }
    return server;
}

async function serveStdio(tools) {
    const { StdioServerTransport } = load('@modelcontextprotocol/server/stdio');
    await build(tools).connect(new StdioServerTransport());
}

function withSessions(tools) {
    const { NodeStreamableHTTPServerTransport } = load('@modelcontextprotocol/node');
    const sessions = new Map();
    const open = async () => {
        const transport = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (id) => sessions.set(id, transport),
        });
        transport.onclose = () => sessions.delete(transport.sessionId);
        await build(tools).connect(transport);
        return transport;
    };
    return async (request, response) => {
        const id = request.headers['mcp-session-id'];
        const transport = id ? sessions.get(id) : await open();
        if (!transport) {
            response.writeHead(404).end();
            return;
        }
        await transport.handleRequest(request, response);
    };
}

// One server object per request, as the SDK's documentation shows.
function withoutSessions(tools) {
    const { toNodeHandler } = load('@modelcontextprotocol/node');
    return toNodeHandler(createMcpHandler(() => build(tools), { responseMode: 'auto' }));
}

const [, , transport, ...words] = process.argv;
if (transport === 'stdio') {
    await serveStdio(Number(words[0]));
} else {
    const [port, tools, mode] = words;
    const handler = (mode === 'stateful' ? withSessions : withoutSessions)(Number(tools));
    createServer((request, response) => void handler(request, response)).listen(Number(port), '127.0.0.1');
}
