// Transports of servers of npm `@modelcontextprotocol/server`, in both eras.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { load } from '../packages.mjs';

const { createMcpHandler, isLegacyRequest } = load('@modelcontextprotocol/server');
const { serveStdio } = load('@modelcontextprotocol/server/stdio');
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = load('@modelcontextprotocol/node');

/** Event store of a session, from which a client resumes a broken stream. */
class Events {
    #all = [];

    async storeEvent(stream, message) {
        return String(this.#all.push({ stream, message }) - 1);
    }

    async replayEventsAfter(last, { send }) {
        const { stream } = this.#all[last];
        for (const [id, event] of [...this.#all.entries()].slice(Number(last) + 1))
            if (event.stream === stream) await send(String(id), event.message);
        return stream;
    }
}

/** Serves over stdio, or with `--http` at a free port, which is printed. `withNotify` gets the notifier of modern HTTP. */
export function serve(build, withNotify = () => {}) {
    if (!process.argv.includes('--http')) return serveStdio(build);
    const handler = createMcpHandler(build, { legacy: 'reject' });
    withNotify(handler.notify);
    const modern = toNodeHandler(handler);
    const sessions = new Map();
    const legacy = async (request, response, body) => {
        const id = request.headers['mcp-session-id'];
        const transport = sessions.get(id) ?? new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            eventStore: new Events(),
            retryInterval: 50,
            onsessioninitialized: id => void sessions.set(id, transport),
            onsessionclosed: id => void sessions.delete(id),
        });
        if (id && !sessions.has(id)) return response.writeHead(404).end();
        if (!id) await build({ era: 'legacy' }).connect(transport);
        await transport.handleRequest(request, response, body);
    };
    const http = createServer(async (request, response) => {
        const asked = await toWebRequest(request);
        const isLegacy = await isLegacyRequest(asked);
        const text = await asked.text();
        await (isLegacy ? legacy : modern)(request, response, text ? JSON.parse(text) : undefined);
    });
    http.listen(0, '127.0.0.1', () => console.error(`http://127.0.0.1:${http.address().port}/mcp`));
}
