// Server of npm `@modelcontextprotocol/server`, the second TypeScript SDK, with most features of the demo server.
// usage: node ts2_server.mjs [--http]
import { setTimeout as pause } from 'node:timers/promises';
import { load } from '../packages.mjs';
import { serve } from './ts2_serve.mjs';

const { McpServer, ResourceTemplate, completable, inputRequired, inputResponse } = load('@modelcontextprotocol/server');
const { z } = load('zod');

const CLOCK = 'demo://clock';
// Each modern HTTP request has its own server object, so lasting state is kept here.
const state = { touches: 0, cancelled: 0, bonus: false };
// Notifies subscribers over modern HTTP; other connections are notified by their own server object.
let notify;

const say = text => ({ content: [{ type: 'text', text: String(text) }] });
const failed = text => ({ ...say(text), isError: true });
const starting = words => value => words.filter(word => word.startsWith(value ?? ''));

function build({ era }) {
    const server = new McpServer(
        { name: 'foreign-typescript2', version: '1.0.0' },
        {
            instructions: 'Add numbers.',
            capabilities: { logging: {}, tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } },
        },
    );
    plainTools(server);
    askingTools(server);
    changes(server, era);
    const read = (uri, text) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text }] });
    server.registerResource('readme', 'demo://readme', { mimeType: 'text/plain' }, uri => read(uri, 'Read me.'));
    server.registerResource('clock', CLOCK, { mimeType: 'text/plain' }, uri => read(uri, `${state.touches}`));
    const complete = { name: starting(['shopping', 'standup', 'story']) };
    const notes = new ResourceTemplate('demo://notes/{name}', { list: undefined, complete });
    server.registerResource('notes', notes, { mimeType: 'text/plain' }, (uri, { name }) => read(uri, `Note ${name}`));
    const languages = completable(z.string(), starting(['python', 'pascal', 'perl', 'rust'])).optional();
    const message = text => ({ messages: [{ role: 'user', content: { type: 'text', text } }] });
    server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) },
        ({ name }) => message(`Say hello to ${name}.`));
    server.registerPrompt('review', { argsSchema: z.object({ code: z.string(), language: languages }) },
        ({ code, language }) => message(`Review this ${language ? `${language} ` : ''}code:\n${code}`));
    return server;
}

function plainTools(server) {
    const tool = (name, input, run, more) =>
        server.registerTool(name, { description: name, inputSchema: z.object(input), ...more }, run);
    tool('add', { a: z.number(), b: z.number() }, ({ a, b }) => say(a + b), { annotations: { readOnlyHint: true } });
    tool('echo', { text: z.string() }, ({ text }) => say(text));
    tool('fail', { reason: z.string() }, ({ reason }) => failed(reason));
    const weather = { city: z.string(), celsius: z.number(), sky: z.string() };
    tool('weather', { city: z.string() }, ({ city }) => {
        const structuredContent = { city, celsius: 21.5, sky: 'clear' };
        return { ...say(JSON.stringify(structuredContent)), structuredContent };
    }, { outputSchema: z.object(weather) });
    tool('countdown', { steps: z.number() }, async ({ steps }, ctx) => {
        for (let step = 1; step <= steps; step++) {
            await progress(ctx, step, steps);
            await ctx.mcpReq.log('info', { left: steps - step }, 'countdown');
            await pause(5);
        }
        return say('lift-off');
    });
    tool('sleep', { seconds: z.number() }, async ({ seconds }, ctx) => {
        ctx.mcpReq.signal.addEventListener('abort', () => state.cancelled++);
        // Progress shows the client that the call runs and can be cancelled.
        await progress(ctx, 0, 1);
        await pause(seconds * 1_000, undefined, { signal: ctx.mcpReq.signal });
        return say('slept');
    });
    tool('cancelled', {}, () => say(state.cancelled));
}

async function progress({ mcpReq }, progress, total) {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken === undefined) return;
    await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } });
}

function askingTools(server) {
    // Requests input unless the response is there. For a legacy client, the SDK sends the request itself and then calls
    // again.
    const asks = (name, input, question, answered) =>
        server.registerTool(name, { description: name, inputSchema: z.object(input) }, (input, { mcpReq }) => {
            const answer = inputResponse(mcpReq.inputResponses, 'it');
            return answer.kind === 'missing'
                ? inputRequired({ inputRequests: { it: question(input) } })
                : answered(answer, input);
        });
    const refused = { decline: failed('declined'), cancel: failed('cancelled') };
    asks('deploy', { build: z.string() },
        ({ build }) => inputRequired.elicit({
            message: `Deploy ${build}?`,
            requestedSchema: {
                type: 'object',
                properties: { confirmed: { type: 'boolean' }, note: { type: 'string', default: 'none' } },
                required: ['confirmed'],
            },
        }),
        ({ action, content }, { build }) =>
            refused[action] ?? say(content.confirmed ? `deployed ${build}, note: ${content.note}` : 'kept'));
    asks('sign_in', {},
        () => inputRequired.elicitUrl({
            message: 'Sign in to continue.', url: 'https://example.com/sign-in', elicitationId: 'sign-in-1',
        }),
        ({ action }) => refused[action] ?? say('signed in'));
    asks('poem', { topic: z.string() },
        ({ topic }) => inputRequired.createMessage({
            messages: [{ role: 'user', content: { type: 'text', text: `Write one line about ${topic}.` } }],
            maxTokens: 100,
        }),
        ({ result }) => say([result.content].flat()[0].text));
    asks('workspace', {}, () => inputRequired.listRoots(),
        ({ roots }) => say(roots.map(root => root.uri).join('\n')));
}

function changes(server, era) {
    const subscriptions = new Set();
    // Over stdio, the SDK forwards the notifications of a modern server to the subscriptions that match.
    const wanted = uri => (era === 'legacy' ? subscriptions.has(uri) : !notify);
    const tool = (name, input, run) => server.registerTool(name, { description: name, inputSchema: z.object(input) }, run);
    const addBonus = () => tool('bonus', {}, () => say('a bonus'));
    let bonus = state.bonus ? addBonus() : undefined;
    tool('set_bonus', { on: z.boolean() }, ({ on }) => {
        state.bonus = on;
        if (on) bonus ??= addBonus();
        else bonus = void bonus?.remove();
        notify?.toolsChanged();
        return say(on ? 'on' : 'off');
    });
    tool('touch', {}, async () => {
        state.touches++;
        notify?.resourceUpdated(CLOCK);
        if (wanted(CLOCK)) await server.server.sendResourceUpdated({ uri: CLOCK });
        return say('touched');
    });
    server.server.setRequestHandler('resources/subscribe', ({ params }) => (subscriptions.add(params.uri), {}));
    server.server.setRequestHandler('resources/unsubscribe', ({ params }) => (subscriptions.delete(params.uri), {}));
}

serve(build, http => (notify = http));
