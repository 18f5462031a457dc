// npm `@modelcontextprotocol/ext-tasks` on `@modelcontextprotocol/client`: tasks of the demo server with the extension.
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { failure, run, until } from './tasks.mjs';
import { era, find, load, url } from './target.mjs';

// The package contains only ES modules, which only `import` loads.
const { createTaskSessionFromClient, resultFromTaskOutcome } =
    await import(pathToFileURL(find('@modelcontextprotocol/ext-tasks', 'client')));
const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');

const UNKNOWN = 't0000000000000000000000';
const modern = era === 'modern';
const clientInfo = { name: 'foreign-tasks2', version: '1.0.0' };
// In the legacy dialect a task sends its client requests to the caller that waits for its result. The package waits
// only after the end, so the client declares no capability there, and the ship sails to its default port.
const clientCapabilities = modern ? { elicitation: { form: {} } } : {};
const port = modern ? 'Horta' : 'Lisbon';
const questions = modern ? 1 : 0;
const versionNegotiation = { mode: modern ? 'auto' : 'legacy' };
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation });

// The SDK's own codecs do not support the extension: the package frames its requests, and the host sends them.
const sent = [];
async function rawDispatch(request, { signal } = {}) {
    const message = { jsonrpc: '2.0', id: sent.length + 1, ...request };
    sent.push(message);
    const { method, params } = message;
    const response = await fetch(url, {
        method: 'POST',
        signal,
        body: JSON.stringify(message),
        headers: {
            'Content-Type': 'application/json',
            'Accept': 'application/json, text/event-stream',
            'MCP-Protocol-Version': '2026-07-28',
            'Mcp-Method': method,
            'Mcp-Name': params.name ?? params.taskId,
        },
    });
    const text = await response.text();
    const json = response.headers.get('content-type').startsWith('application/json') ? text : lastEvent(text);
    const { result, error } = JSON.parse(json);
    return error ? { kind: 'error', error } : { kind: 'result', result };
}
const lastEvent = text => text.split('\n').filter(line => line.startsWith('data: ')).at(-1).slice('data: '.length);

const asked = [];
let answer = () => ({ action: 'accept', content: { port } });
let session;

const text = async execution => resultFromTaskOutcome((await execution.settle()).outcome).content[0].text;
const count = method => sent.filter(message => message.method === method).length;
const require = { task: { preference: 'require' }, declaration: undefined };

await run({
    'a session finds the dialect': async () => {
        await client.connect(new StreamableHTTPClientTransport(url));
        const { tools } = await client.listTools();
        require.declaration = tools.find(tool => tool.name === 'voyage');
        require.declaration.taskSupport = require.declaration.execution?.taskSupport;
        session = createTaskSessionFromClient(client, {
            endpointId: 'demo',
            onInputRequest: request => (asked.push(request), answer()),
            ...(modern && {
                rawDispatch,
                v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo, clientCapabilities },
            }),
        });
        const { execution, cancellation, inputResponses } = session.capabilities;
        assert.deepEqual([execution, cancellation, inputResponses], [true, true, modern]);
    },
    'a task is polled to its end, and its question answered': async () => {
        const execution = await session.callTool('voyage', { days: 1 }, require);
        assert.equal(execution.kind, 'task');
        assert.equal(await text(execution), `reached ${port}`);
        assert.equal(asked.length, questions);
        for (const question of asked.splice(0)) {
            assert.equal(question.kind, 'elicitation');
            assert.match(question.params.message, /Which port/);
        }
        if (modern) assert.ok(count('tasks/get') > 0 && count('tasks/update') === 1);
    },
    'a task is left and taken up again': async () => {
        const execution = await session.callTool('voyage', { days: 1 }, require);
        let reference;
        await execution.handoff(it => void (reference = it));
        // The session releases the task a little later.
        const resume = () => session.resumeTask(reference).catch(error => assert.match(error.message, /active owner/));
        const resumed = await until(resume);
        assert.equal(resumed.handle.taskId, execution.handle.taskId);
        assert.equal(await text(resumed), `reached ${port}`);
        assert.equal(asked.splice(0).length, questions);
    },
    ...(modern && {
        'a declined question is a result': async () => {
            const accept = answer;
            answer = () => ({ action: 'decline' });
            const execution = await session.callTool('voyage', { days: 0 }, require);
            const { outcome } = await execution.settle();
            answer = accept;
            assert.deepEqual([outcome.status, outcome.result?.isError], ['completed', true]);
            asked.splice(0);
        },
    }),
    'a task is cancelled': async () => {
        const execution = await session.callTool('voyage', { days: 600 }, require);
        const { taskId } = execution.handle;
        await execution.cancel();
        assert.equal((await execution.settle()).outcome.status, 'cancelled');
        const task = session.task(taskId);
        await until(async () => (await task.snapshot()).status === 'cancelled');
        // A second cancellation is acknowledged in one dialect, and rejected in the other.
        const again = task.cancel().then(() => undefined, error => error);
        assert.equal((await again) === undefined, modern, String(await again));
    },
    'an unknown task is invalid': async () => {
        for (const about of [task => task.snapshot(), task => task.cancel()]) {
            const error = await failure(about(session.task(UNKNOWN)));
            assert.equal(error.code ?? error.cause?.code, -32602, String(error));
        }
    },
}, async () => {
    await session.close();
    await client.close();
});
