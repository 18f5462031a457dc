// Cutting, resuming and closing of connections, which differ between the transports.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { proxyTo } from './proxy.mjs';
import { era, url } from './target.mjs';

const CLOSE_MS = 2_000; // after that long the SDKs send SIGTERM

/** Calls `see` with every message before the client receives it. */
export function tap(transport, see) {
    const deliver = transport.onmessage;
    transport.onmessage = (message, extra) => (see(message), deliver(message, extra));
}

/** Checks of a legacy session over HTTP, whose streams outlive their connections. */
export function resumption(driver, answer) {
    async function proxied(body, marks) {
        const proxy = await proxyTo(url, marks);
        const { client, transport } = driver.open(proxy.url);
        await client.connect(transport);
        const call = async (name, input, options = {}) => {
            const { content } = await driver.call(client, name, input, options);
            return content[0].text;
        };
        await body({ proxy, client, transport, call });
        await transport.terminateSession();
        await client.close();
    }
    return {
        'resume a call that was cut twice': () => {
            const last = 60;
            const cuts = [3, last - 1];
            return proxied(
                async ({ proxy, client, transport, call }) => {
                    const heard = [];
                    tap(transport, ({ params }) => heard.push(params?.progress ?? params?.data?.left));
                    await client.setLoggingLevel('info');
                    assert.equal(await call('countdown', { from: last }, { onprogress() {} }), 'lift-off');
                    const said = Array.from({ length: last }, (_, i) => [i + 1, last - i - 1]).flat();
                    assert.deepEqual(heard.filter(number => number !== undefined), said);
                    assert.equal(proxy.cuts, cuts.length);
                },
                cuts.map(step => `"progress":${step},`),
            );
        },
        'answer a question after a cut': () =>
            proxied(async ({ proxy, call }) => {
                answer.elicitation = async () => {
                    await proxy.cutAndWait();
                    return { action: 'accept', content: { confirmed: true } };
                };
                assert.equal(await call('deploy', { build: 'v8' }), 'deployed v8');
                assert.equal(proxy.cuts, 1);
            }),
        'hear what changed while it was cut': () =>
            proxied(async ({ proxy, client, transport }) => {
                let heard = 0;
                tap(transport, ({ method }) => void (heard += method === 'notifications/resources/updated'));
                await client.subscribeResource({ uri: 'demo://clock' });
                const touch = () => driver.call(driver.client, 'touch', {}, {});
                await touch();
                while (heard < 1) await pause(5);
                proxy.cut();
                await touch();
                while (heard < 2) await pause(5);
            }),
    };
}

/** Closes the client over its transport, and checks that the server has ended its side. */
export const close = {
    async stdio({ client, transport }) {
        const { pid } = transport;
        const start = performance.now();
        await client.close();
        assert.ok(performance.now() - start < CLOSE_MS, 'the server did not end when its input ended');
        assert.throws(() => process.kill(pid, 0), `the server is still running as process ${pid}`);
    },
    async http({ client, transport }) {
        const { sessionId } = transport;
        assert.equal(sessionId !== undefined, era === 'legacy', `session ${sessionId}`);
        await transport.terminateSession();
        await client.close();
        if (sessionId) assert.equal(await statusOf(sessionId), 404, 'the session is still there');
    },
    async sse({ client }) {
        await client.close();
    },
    async websocket({ client }) {
        const closed = new Promise(resolve => (client.onclose = resolve));
        await client.close();
        await closed;
    },
};

async function statusOf(session) {
    const headers = {
        'content-type': 'application/json',
        'accept': 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        'mcp-session-id': session,
    };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
    return (await fetch(url, { method: 'POST', headers, body })).status;
}
