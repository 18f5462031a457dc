// npm `@modelcontextprotocol/inspector`, with its command line: one process per request.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { args, command, era, home, over } from './target.mjs';

const modern = era === 'modern';
const program = resolve(home, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
// The inspector stores its settings in the home directory, which must not be the developer's.
const env = { ...process.env, HOME: resolve(home, 'inspector'), USERPROFILE: resolve(home, 'inspector') };

/** Runs the program; returns its parsed output lines and its exit code. */
function inspect(...request) {
    const transport = over === 'stdio' ? [] : ['--transport', over];
    const options = ['--protocol-era', era, '--format', 'json', '--quiet', ...transport, '--method', ...request];
    return new Promise(done => {
        execFile(process.execPath, [program, '--cli', command, ...args, ...options], { env }, (error, stdout, stderr) => {
            const [said, complained] = [stdout, stderr].map(text => text.split('\n').filter(Boolean).map(parse));
            done({ code: error?.code ?? 0, result: said[0]?.result, error: complained[0]?.error, text: stdout + stderr });
        });
    });
}

function parse(line) {
    try {
        return JSON.parse(line);
    } catch {
        return {};
    }
}

async function result(...request) {
    const { code, result, text } = await inspect(...request);
    assert.equal(code, 0, text);
    return result;
}
async function call(tool, ...pairs) {
    const { content } = await result('tools/call', '--tool-name', tool, '--tool-arg', ...pairs);
    return content[0].text;
}
const sorted = (items, key) => items.map(item => item[key]).sort();

const checks = {
    'initialize': async () => {
        const { serverInfo, protocolVersion } = await result('initialize');
        assert.deepEqual([serverInfo?.name, protocolVersion], ['wharf-demo', modern ? '2026-07-28' : '2025-11-25']);
    },
    'list tools, strictly': async () => {
        const { tools } = await result('tools/list', '--strict');
        assert.deepEqual(sorted(tools, 'name'), [
            'add', 'countdown', 'deploy', 'echo', 'fail', 'forecast', 'gallery', 'pay_share', 'poem', 'set_bonus', 'sign_in',
            'sleep', 'split_bill', 'touch', 'voyage', 'weather', 'workspace',
        ]);
    },
    'call': async () => assert.equal(await call('add', 'a=2', 'b=3'), '5'),
    'call with notifications': async () => assert.equal(await call('countdown', 'from=3'), 'lift-off'),
    'structured output': async () => {
        const { structuredContent } = await result('tools/call', '--tool-name', 'weather', '--tool-arg', 'city=Oslo');
        assert.deepEqual(structuredContent, { city: 'Oslo', celsius: 21.5, sky: 'clear' });
    },
    'a tool error': async () => {
        const { code, result } = await inspect('tools/call', '--tool-name', 'fail', '--tool-arg', 'reason=fuel');
        assert.deepEqual([code, result.isError, result.content[0].text], [5, true, 'fuel']);
    },
    'a question it cannot answer': async () => {
        const { code, error } = await inspect('tools/call', '--tool-name', 'deploy', '--tool-arg', 'build=v7');
        assert.equal(code, 1);
        assert.match(error.message, /capability/);
    },
    'list resources': async () => {
        const { resources } = await result('resources/list');
        assert.deepEqual(sorted(resources, 'uri'), ['demo://clock', 'demo://logo', 'demo://readme', 'ui://wharf-demo/bill']);
    },
    'list templates': async () => {
        const { resourceTemplates } = await result('resources/templates/list');
        assert.deepEqual(sorted(resourceTemplates, 'uriTemplate'), ['demo://files/{+path}', 'demo://notes/{name}']);
    },
    'read': async () => {
        const { contents } = await result('resources/read', '--uri', 'demo://notes/standup');
        assert.deepEqual(sorted(contents, 'text'), ['Note standup']);
    },
    'an unknown resource': async () => {
        const { code, error } = await inspect('resources/read', '--uri', 'demo://nothing');
        assert.equal(code, 1);
        assert.match(error.message, /demo:\/\/nothing/);
    },
    'list prompts': async () => {
        const { prompts } = await result('prompts/list');
        assert.deepEqual(sorted(prompts, 'name'), ['greet', 'review']);
    },
    'get a prompt': async () => {
        const { messages } = await result('prompts/get', '--prompt-name', 'greet', '--prompt-args', 'name=Ada');
        assert.equal(messages[0].content.text, 'Say hello to Ada.');
    },
    ...(!modern && {
        'set the log level': async () => assert.deepEqual(await result('logging/setLevel', '--log-level', 'info'), {}),
    }),
    'many calls at once': async () => {
        const load = ['--load', '--load-requests', '200', '--load-concurrency', '20'];
        const report = await result('tools/call', '--tool-name', 'add', '--tool-arg', 'a=2', 'b=3', ...load);
        assert.deepEqual([report.ok, report.toolErrors, report.errors], [200, 0, 0], JSON.stringify(report));
    },
};

let failed = 0;
for (const [name, body] of Object.entries(checks)) {
    try {
        await body();
        console.log(`ok ${name}`);
    } catch (error) {
        failed += 1;
        console.log(`FAIL ${name}: ${String(error.message ?? error).replaceAll('\n', ' ')}`);
    }
}
process.exit(failed ? 1 : 0);
