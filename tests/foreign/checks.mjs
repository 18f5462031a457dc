// Checks of the demo server that both TypeScript clients share. Their scripts supply the calls in which the SDKs
// differ.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { close, resumption, tap } from './lifetime.mjs';
import { era, over } from './target.mjs';

const modern = era === 'modern';

export const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };

// Received server requests, and the answers to them. A check sets `answer.elicitation` before it calls; if that is a
// function, its result is the answer.
const asked = [];
const answer = {
    elicitation: { action: 'cancel' },
    sampling: { role: 'assistant', model: 'foreign', content: { type: 'text', text: 'The sea, the sea.' } },
    roots: { roots: [{ uri: 'file:///work/one', name: 'one' }, { uri: 'file:///work/two' }] },
};
export function reply(kind, params) {
    asked.push({ kind, ...params });
    return typeof answer[kind] === 'function' ? answer[kind]() : answer[kind];
}

const CHECK_MS = 10_000;
const QUIET_MS = 300;

const names = items => items.map(item => item.name).sort();
const bytes = data => Buffer.from(data, 'base64').toString('latin1');
const PNG = '\x89PNG';

const failure = promise => promise.then(() => assert.fail('it succeeded'), error => error);

/** Runs all checks with `driver`: {open, client, transport, call, logs, watch, more}. */
export async function run(driver) {
    const { client, transport } = driver;
    const notices = [];
    const errors = [];
    const wire = [];
    let closed = false;
    let failed = 0;

    client.fallbackNotificationHandler = async notice => void notices.push(notice);
    client.onerror = error => void errors.push(error.message);
    client.onclose = () => (closed = true);

    async function check(name, body) {
        const late = pause(CHECK_MS, undefined, { ref: false }).then(() => assert.fail(`no answer in ${CHECK_MS} ms`));
        try {
            await Promise.race([body(), late]);
            console.log(`ok ${name}`);
        } catch (error) {
            failed += 1;
            console.log(`FAIL ${name}: ${String(error.message ?? error).replaceAll('\n', ' ')}`);
        }
    }
    async function call(name, input = {}, options = {}) {
        return driver.call(client, name, input, options);
    }
    async function text(name, input, options) {
        const result = await call(name, input, options);
        assert.ok(!result.isError, `isError: ${JSON.stringify(result.content)}`);
        return result.content[0].text;
    }
    async function toolError(name, input) {
        const result = await call(name, input);
        assert.equal(result.isError, true);
        return result.content[0].text;
    }
    async function read(uri) {
        const { contents } = await client.readResource({ uri });
        assert.equal(contents.length, 1);
        assert.equal(contents[0].uri, uri);
        return contents[0];
    }
    const count = method => notices.filter(notice => notice.method === method).length;
    async function another(method, act) {
        const before = count(method);
        await act();
        while (count(method) === before) await pause(5);
        const { params } = notices.findLast(notice => notice.method === method);
        if (modern) assert.ok(params?._meta?.['io.modelcontextprotocol/subscriptionId'], `${method}: no subscriptionId`);
        return params;
    }

    await check('connect', async () => {
        await client.connect(transport);
        tap(transport, message => wire.push(message));
    });
    if (failed) process.exit(1);

    const checks = {
        'server name': () => assert.equal(client.getServerVersion()?.name, 'wharf-demo'),
        'instructions': () => assert.ok(client.getInstructions(), 'there are none'),
        'capabilities': () => {
            const has = client.getServerCapabilities();
            assert.equal(has.tools?.listChanged, true, 'tools.listChanged');
            assert.equal(has.resources?.subscribe, true, 'resources.subscribe');
            assert.equal(has.resources?.listChanged, true, 'resources.listChanged');
            assert.equal(has.prompts?.listChanged, true, 'prompts.listChanged');
            assert.ok(has.completions, 'completions');
            assert.ok(has.logging, 'logging');
        },

        'list tools': async () => {
            const { tools } = await client.listTools();
            assert.deepEqual(names(tools), [
                'add', 'countdown', 'deploy', 'echo', 'fail', 'forecast', 'gallery', 'pay_share', 'poem', 'set_bonus', 'sign_in',
                'sleep', 'split_bill', 'touch', 'voyage', 'weather', 'workspace',
            ]);
            const add = tools.find(tool => tool.name === 'add');
            assert.ok(add.description, 'add has no description');
            assert.equal(add.inputSchema.properties.a.type, 'integer');
            assert.deepEqual([...add.inputSchema.required].sort(), ['a', 'b']);
            assert.equal(tools.find(tool => tool.name === 'weather').outputSchema?.type, 'object');
        },
        'call add': async () => assert.equal(await text('add', { a: 2, b: 3 }), '5'),
        'call echo': async () => {
            const odd = 'naïve ☃ 𝄞 "quoted" \\ \n line\u2028separator';
            assert.equal(await text('echo', { text: odd }), odd);
        },
        'a long message': async () => {
            const long = 'x'.repeat(1_000_000);
            assert.ok((await text('echo', { text: long })) === long, 'it came back changed');
        },
        'structured output': async () => {
            const { structuredContent, content } = await call('weather', { city: 'Oslo' });
            assert.equal(structuredContent.city, 'Oslo');
            assert.equal(typeof structuredContent.celsius, 'number');
            assert.equal(typeof structuredContent.sky, 'string');
            assert.deepEqual(JSON.parse(content[0].text), structuredContent);
        },
        'content types': async () => {
            const { content } = await call('gallery');
            const kinds = ['text', 'image', 'audio', 'resource_link', 'resource'];
            const [words, image, audio, link, embedded] = kinds.map(kind => content.find(item => item.type === kind));
            assert.deepEqual(content.map(item => item.type).sort(), kinds.toSorted());
            assert.ok(words.text);
            assert.equal(image.mimeType, 'image/png');
            assert.ok(bytes(image.data).startsWith(PNG), 'not a PNG');
            assert.equal(audio.mimeType, 'audio/wav');
            assert.ok(bytes(audio.data).startsWith('RIFF'), 'not a WAV');
            assert.equal(link.uri, 'demo://readme');
            assert.ok(link.name, 'the link has no name');
            assert.equal(embedded.resource.uri, 'demo://readme');
            assert.ok(embedded.resource.text);
        },
        'a tool error': async () => assert.equal(await toolError('fail', { reason: 'out of fuel' }), 'out of fuel'),
        'an unknown tool': async () => {
            const error = await failure(call('nothing'));
            assert.equal(error.code, -32602, error.message);
            assert.match(error.message, /nothing/);
        },
        'a slow call blocks no other': async () => {
            const order = [];
            await Promise.all([
                text('sleep', { seconds: 0.3 }).then(() => order.push('sleep')),
                text('add', { a: 1, b: 1 }).then(() => order.push('add')),
            ]);
            assert.deepEqual(order, ['add', 'sleep']);
        },

        'list resources': async () => {
            const { resources } = await client.listResources();
            const types = Object.fromEntries(resources.map(resource => [resource.uri, resource.mimeType]));
            assert.deepEqual(types, {
                'demo://readme': 'text/markdown', 'demo://logo': 'image/png', 'demo://clock': 'text/plain',
                'ui://wharf-demo/bill': 'text/html;profile=mcp-app',
            });
        },
        'list templates': async () => {
            const { resourceTemplates } = await client.listResourceTemplates();
            const templates = resourceTemplates.map(template => template.uriTemplate).sort();
            assert.deepEqual(templates, ['demo://files/{+path}', 'demo://notes/{name}']);
        },
        'read a text': async () => {
            const readme = await read('demo://readme');
            assert.equal(readme.mimeType, 'text/markdown');
            assert.ok(readme.text);
        },
        'read a blob': async () => {
            const logo = await read('demo://logo');
            assert.equal(logo.mimeType, 'image/png');
            assert.ok(bytes(logo.blob).startsWith(PNG), 'not a PNG');
        },
        'read a template': async () => {
            assert.equal((await read('demo://notes/standup')).text, 'Note standup');
            assert.equal((await read('demo://files/a/b.txt')).text, 'File a/b.txt');
        },
        'an unknown resource': async () => {
            await failure(read('demo://nothing'));
            // Checked on the wire, because the second SDK maps one code to the other.
            const { error } = wire.findLast(message => 'error' in message);
            assert.equal(error.code, modern ? -32602 : -32002, error.message);
            assert.equal(error.data?.uri, 'demo://nothing');
        },

        'list prompts': async () => {
            const { prompts } = await client.listPrompts();
            const required = Object.fromEntries(
                prompts.map(prompt => [prompt.name, prompt.arguments.map(({ name, required }) => [name, !!required])]),
            );
            assert.deepEqual(required, { greet: [['name', true]], review: [['code', true], ['language', false]] });
        },
        'get a prompt': async () => {
            const get = async (name, input) => {
                const { messages } = await client.getPrompt({ name, arguments: input });
                assert.equal(messages.length, 1);
                assert.equal(messages[0].role, 'user');
                return messages[0].content.text;
            };
            assert.equal(await get('greet', { name: 'Ada' }), 'Say hello to Ada.');
            assert.equal(await get('review', { code: 'f()', language: 'rust' }), 'Review this rust code:\nf()');
            assert.equal(await get('review', { code: 'f()' }), 'Review this code:\nf()');
        },
        'a prompt without its argument': async () => {
            const error = await failure(client.getPrompt({ name: 'greet', arguments: {} }));
            assert.equal(error.code, -32602, error.message);
        },
        'complete a template': async () => {
            const ref = { type: 'ref/resource', uri: 'demo://notes/{name}' };
            const { completion } = await client.complete({ ref, argument: { name: 'name', value: 'st' } });
            assert.deepEqual(completion.values.toSorted(), ['standup', 'story']);
        },
        'complete a prompt': async () => {
            const ref = { type: 'ref/prompt', name: 'review' };
            const { completion } = await client.complete({ ref, argument: { name: 'language', value: 'p' } });
            assert.deepEqual(completion.values.toSorted(), ['pascal', 'perl', 'python']);
        },

        'progress': async () => {
            const steps = Array.from({ length: 20 }, (_, i) => ({ progress: i + 1, total: 20 }));
            const heard = [];
            const start = wire.length;
            assert.equal(await text('countdown', { from: 20 }, { onprogress: at => heard.push(at) }), 'lift-off');
            const sent = wire.slice(start).filter(message => message.method === 'notifications/progress');
            assert.deepEqual(sent.map(({ params: { progress, total } }) => ({ progress, total })), steps);
            assert.ok(wire.findLastIndex(message => 'result' in message) > wire.indexOf(sent[19]), 'it follows the result');
            // The SDKs drop the listener if the result arrives in the same read as the last notifications.
            assert.ok(heard.length > 1, 'the client heard of none');
            assert.deepEqual(heard, steps.slice(0, heard.length));
        },
        'logs': async () => {
            const meta = await driver.logs('info');
            const start = notices.length;
            await text('countdown', { from: 3 }, { meta });
            while (notices.length < start + 3) await pause(5);
            const logs = notices.slice(start);
            assert.ok(logs.every(({ method }) => method === 'notifications/message'), JSON.stringify(logs));
            assert.ok(logs.every(({ params }) => params.level === 'info' && params.logger === 'countdown'));
            const left = logs.map(({ params }) => params.data.left);
            assert.ok(left.every((n, i) => i === 0 || n === left[i - 1] - 1), `left: ${left}`);
        },
        'logs below the level stay away': async () => {
            const meta = await driver.logs('error');
            const before = count('notifications/message');
            await text('countdown', { from: 2 }, { meta });
            await pause(QUIET_MS);
            assert.equal(count('notifications/message'), before);
        },

        'elicitation accepted': async () => {
            answer.elicitation = { action: 'accept', content: { confirmed: true } };
            assert.equal(await text('deploy', { build: 'v7' }), 'deployed v7');
            const { message, requestedSchema } = asked.at(-1);
            assert.equal(message, 'Deploy v7?');
            assert.equal(requestedSchema.properties.confirmed.type, 'boolean');
            assert.deepEqual(requestedSchema.required, ['confirmed']);
        },
        'elicitation accepted with no': async () => {
            answer.elicitation = { action: 'accept', content: { confirmed: false } };
            assert.equal(await text('deploy', { build: 'v7' }), 'kept');
        },
        'elicitation declined': async () => {
            answer.elicitation = { action: 'decline' };
            assert.match(await toolError('deploy', { build: 'v7' }), /declined/);
        },
        'elicitation cancelled': async () => {
            answer.elicitation = { action: 'cancel' };
            assert.match(await toolError('deploy', { build: 'v7' }), /cancelled/);
        },
        'elicitation by URL': async () => {
            answer.elicitation = { action: 'accept' };
            assert.equal(await text('sign_in'), 'signed in');
            const { mode, message, url } = asked.at(-1);
            assert.deepEqual([mode, message, url], ['url', 'Sign in to continue.', 'https://example.com/sign-in']);
        },
        'sampling': async () => {
            assert.equal(await text('poem', { topic: 'harbours' }), 'The sea, the sea.');
            const { messages, maxTokens } = asked.at(-1);
            assert.equal(maxTokens, 100);
            assert.equal(messages.length, 1);
            assert.equal(messages[0].role, 'user');
            assert.equal([messages[0].content].flat()[0].text, 'Write one line about harbours.');
        },
        'roots': async () => {
            const lines = (await text('workspace')).trim().split('\n');
            assert.deepEqual(lines, ['file:///work/one', 'file:///work/two']);
        },

        'cancel a call': async () => {
            const stop = new AbortController();
            const start = wire.length;
            const sleeping = failure(call('sleep', { seconds: 1 }, { signal: stop.signal }));
            await pause(100);
            stop.abort('changed my mind');
            await sleeping;
            assert.equal(await text('add', { a: 20, b: 22 }), '42');
            await pause(1_000 + QUIET_MS);
            const replies = wire.slice(start).filter(message => 'id' in message);
            assert.equal(replies.length, 1, 'the cancelled call was answered');
        },
        'changes': async () => {
            const unwatch = await driver.watch('demo://clock');
            const bonus = async () => names((await client.listTools()).tools).includes('bonus');
            const set = on => another('notifications/tools/list_changed', () => call('set_bonus', { on }));
            await set(true);
            assert.equal(await bonus(), true, 'no bonus after it was set');
            await set(false);
            assert.equal(await bonus(), false, 'a bonus after it was taken away');

            const updated = 'notifications/resources/updated';
            const params = await another(updated, () => text('touch'));
            assert.equal(params.uri, 'demo://clock');
            await unwatch();
            const before = count(updated);
            await text('touch');
            await pause(QUIET_MS);
            assert.equal(count(updated), before, 'an update after the subscription ended');
        },
        ...driver.more,
        ...(over === 'http' && !modern && resumption(driver, answer)),

        'no protocol errors': () => {
            const lost = /progress notification for an unknown token/; // see "progress"
            assert.deepEqual(errors.filter(error => !lost.test(error)), []);
        },
        'close': () => close[over](driver),
    };
    for (const [name, body] of Object.entries(checks)) {
        if (closed) {
            console.log(`FAIL ${name}: the server closed the connection`);
            process.exit(1);
        }
        await check(name, async () => body());
    }
    process.exit(failed ? 1 : 0);
}
