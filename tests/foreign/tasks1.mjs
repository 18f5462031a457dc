// npm `@modelcontextprotocol/sdk`: legacy tasks of the demo server, with the SDK's own stream and with manual polling.
import assert from 'node:assert/strict';
import { failure, run, until } from './tasks.mjs';
import { args, command, load, over, url } from './target.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = load('@modelcontextprotocol/sdk/types.js');

const RELATED = 'io.modelcontextprotocol/related-task';
const UNKNOWN = 't0000000000000000000000';

const client = new Client({ name: 'foreign-tasks1', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
const transport = over === 'stdio' ? new StdioClientTransport({ command, args }) : new StreamableHTTPClientTransport(url);
const { tasks } = client.experimental;

// Received server requests, and the answer to them.
const asked = [];
let answer = () => ({ action: 'accept', content: { port: 'Horta' } });
client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => (asked.push(params), answer()));
const statuses = [];
client.setNotificationHandler(types.TaskStatusNotificationSchema, ({ params }) => void statuses.push(params));

const voyage = days => ({ name: 'voyage', arguments: { days } });
const start = (days, task = {}) =>
    client.request({ method: 'tools/call', params: voyage(days) }, types.CreateTaskResultSchema, { task })
        .then(({ task }) => task);

await run({
    'the server offers tasks': async () => {
        await client.connect(transport);
        const { tasks } = client.getServerCapabilities();
        assert.ok(tasks.requests.tools.call && tasks.cancel);
        // This client is unauthenticated, so it cannot list tasks.
        assert.equal(tasks.list, undefined);
        const { tools } = await client.listTools();
        assert.equal(tools.find(tool => tool.name === 'voyage').execution.taskSupport, 'optional');
    },
    'a stream follows a task and its question': async () => {
        const seen = [];
        for await (const message of tasks.callToolStream(voyage(1), undefined, { task: { ttl: 60_000 } })) seen.push(message);
        const kinds = seen.map(message => message.type);
        assert.deepEqual([kinds[0], kinds.at(-1)], ['taskCreated', 'result'], JSON.stringify(seen));
        const { task } = seen[0];
        assert.deepEqual([task.status, task.ttl], ['working', 60_000]);
        assert.ok(kinds.includes('taskStatus'));
        const { result } = seen.at(-1);
        assert.equal(result.content[0].text, 'reached Horta');
        assert.equal(result._meta[RELATED].taskId, task.taskId);
        const [question] = asked.splice(0);
        assert.match(question.message, /Which port/);
        assert.equal(question._meta[RELATED].taskId, task.taskId);
        assert.deepEqual(asked, []);
    },
    'a task asks whoever waits for its result': async () => {
        const { taskId } = await start(0);
        await until(async () => (await tasks.getTask(taskId)).status === 'input_required');
        assert.deepEqual(asked, [], 'it asked before anybody waited');
        const result = await tasks.getTaskResult(taskId, types.CallToolResultSchema);
        assert.equal(result.content[0].text, 'reached Horta');
        assert.equal(asked.splice(0).length, 1);
        assert.equal((await tasks.getTask(taskId)).status, 'completed');
        // The result stays the same, and can be fetched again.
        const again = await tasks.getTaskResult(taskId, types.CallToolResultSchema);
        assert.deepEqual(again, result);
        assert.deepEqual(asked, []);
    },
    'progress goes on under the token of the call': async () => {
        const heard = [];
        const stream = tasks.callToolStream(voyage(3), undefined, { task: {}, onprogress: it => void heard.push(it) });
        for await (const message of stream) if (message.type === 'error') throw message.error;
        assert.ok(heard.some(({ progress, total }) => progress > 1 && total === 3), JSON.stringify(heard));
        asked.splice(0);
    },
    'a declined question is a result that failed': async () => {
        const accept = answer;
        answer = () => ({ action: 'decline' });
        const { taskId } = await start(0);
        const result = await tasks.getTaskResult(taskId, types.CallToolResultSchema);
        answer = accept;
        assert.equal(result.isError, true);
        assert.equal((await tasks.getTask(taskId)).status, 'failed');
        asked.splice(0);
    },
    'a task is cancelled once': async () => {
        const { taskId } = await start(600);
        const cancelled = await tasks.cancelTask(taskId);
        assert.deepEqual([cancelled.taskId, cancelled.status], [taskId, 'cancelled']);
        assert.equal((await tasks.getTask(taskId)).status, 'cancelled');
        assert.equal((await failure(tasks.cancelTask(taskId))).code, -32602);
        await failure(tasks.getTaskResult(taskId, types.CallToolResultSchema));
        await until(() => statuses.some(it => it.taskId === taskId && it.status === 'cancelled'));
    },
    'an unknown task is invalid': async () => {
        for (const about of [
            () => tasks.getTask(UNKNOWN),
            () => tasks.cancelTask(UNKNOWN),
            () => tasks.getTaskResult(UNKNOWN, types.CallToolResultSchema),
        ]) assert.equal((await failure(about())).code, -32602);
    },
    'tasks cannot be listed by nobody': async () => {
        assert.equal((await failure(tasks.listTasks())).code, -32601);
    },
    'a tool that is never a task refuses to be one': async () => {
        const add = { method: 'tools/call', params: { name: 'add', arguments: { a: 1, b: 2 } } };
        assert.equal((await failure(client.request(add, types.CreateTaskResultSchema, { task: {} }))).code, -32601);
    },
    'whoever wants no task gets the result': async () => {
        const result = await client.callTool(voyage(0));
        assert.equal(result.content[0].text, 'reached Horta');
        assert.equal(asked.splice(0).length, 1);
    },
}, () => client.close());
