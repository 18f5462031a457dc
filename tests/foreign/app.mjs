// App of the demo server in Chromium: a minimal host of MCP Apps with this SDK as its client, in both eras.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { era, load, url } from './target.mjs';

const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const { chromium } = load('playwright-core');

const TOOL = 'split_bill';
const APPS = 'io.modelcontextprotocol/ui';
const MIME = 'text/html;profile=mcp-app';
const BROWSER = {
    executablePath: '/usr/bin/chromium',
    headless: true,
    args: [
        '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync',
    ],
};

async function connect(extensions) {
    const mode = era === 'modern' ? 'auto' : 'legacy';
    const client = new Client({ name: 'app-host', version: '1.0.0' }, { capabilities: { extensions }, versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(url));
    return client;
}

/** Header for the frame with the app, as the specification builds it from the metadata of the page. */
function policy({ connectDomains = [], resourceDomains = [], frameDomains = [], baseUriDomains = [] } = {}) {
    const list = (origins, none = '') => origins.join(' ') || none;
    const resources = list(resourceDomains);
    return [
        `default-src 'none'`, `script-src 'self' 'unsafe-inline' ${resources}`, `style-src 'self' 'unsafe-inline' ${resources}`,
        `img-src 'self' data: ${resources}`, `font-src 'self' ${resources}`, `media-src 'self' data: ${resources}`,
        `connect-src ${list(connectDomains, `'none'`)}`, `frame-src ${list(frameDomains, `'none'`)}`,
        `base-uri ${list(baseUriDomains, `'self'`)}`, `object-src 'none'`,
    ].join('; ');
}

// The host: it passes every message of the frame to this process, and back.
const HOST_PAGE = proxy => `<!doctype html><title>host</title>
<iframe id="sandbox" src="${proxy}" sandbox="allow-scripts allow-same-origin" style="width: 600px; border: 0"></iframe>
<script>
    const sandbox = document.getElementById('sandbox');
    window.toApp = message => sandbox.contentWindow.postMessage(message, '${proxy}');
    addEventListener('message', ({ source, origin, data }) => {
        if (source === sandbox.contentWindow && origin === '${proxy}') window.fromApp(data);
    });
</script>`;

// The proxy, on another origin: it loads the page into a frame with an opaque origin.
const PROXY_PAGE = host => `<!doctype html><title>sandbox</title><body style="margin: 0">
<script>
    let app;
    const reserved = message => message?.method?.startsWith('ui/notifications/sandbox-');
    addEventListener('message', ({ source, origin, data }) => {
        if (source === parent && origin === '${host}') {
            if (data.method !== 'ui/notifications/sandbox-resource-ready') return app?.contentWindow.postMessage(data, '*');
            app = document.createElement('iframe');
            app.sandbox = 'allow-scripts';
            app.style = 'width: 100%; height: 300px; border: 0';
            app.srcdoc = data.params.html;
            document.body.append(app);
        } else if (app && source === app.contentWindow && !reserved(data)) {
            parent.postMessage(data, '${host}');
        }
    });
    parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, '${host}');
</script>`;

/** Serves one page on a free port of loopback; `page` and `headers` are set before the first request. */
async function site() {
    const site = { page: '', headers: {} };
    const server = createServer((request, response) => {
        const found = request.url === '/';
        response.writeHead(found ? 200 : 204, { 'content-type': 'text/html; charset=utf-8', ...site.headers });
        response.end(found ? site.page : '');
    });
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
    site.origin = `http://127.0.0.1:${server.address().port}`;
    site.close = () => server.close();
    return site;
}

/** Host side of the bridge. Messages of the app arrive at `receive`. */
class Host {
    received = [];
    waiting = [];
    replies = new Map();
    lastId = 0;

    constructor(client, tools, send, html) {
        Object.assign(this, { client, tools, send, html });
    }

    async receive(message) {
        this.received.push(message);
        for (const wake of this.waiting.splice(0)) wake();
        const { id, method, params } = message;
        if (method === 'ui/notifications/sandbox-proxy-ready') {
            await this.notify('ui/notifications/sandbox-resource-ready', { html: this.html });
        } else if (!method) {
            this.replies.get(id)?.(message);
        } else if (id !== undefined) {
            const reply = await this.reply(method, params).then(
                result => ({ result }),
                ({ code = -32000, message }) => ({ error: { code, message } }),
            );
            await this.send({ jsonrpc: '2.0', id, ...reply });
        }
    }

    async reply(method, params) {
        switch (method) {
            case 'ui/initialize':
                return {
                    protocolVersion: '2026-01-26',
                    hostInfo: { name: 'test-host', version: '1.0.0' },
                    hostCapabilities: { serverTools: {}, openLinks: {}, updateModelContext: {} },
                    hostContext: {
                        theme: 'dark',
                        styles: { variables: { '--color-text-primary': 'rgb(1, 2, 3)' } },
                        displayMode: 'inline',
                        availableDisplayModes: ['inline', 'fullscreen'],
                    },
                };
            case 'tools/call': {
                const callers = this.tools.find(tool => tool.name === params.name)?._meta?.ui?.visibility ?? ['model', 'app'];
                if (!callers.includes('app')) throw { message: `the app may not call ${params.name}` };
                return await this.client.callTool(params);
            }
            case 'resources/read':
                return await this.client.readResource(params);
            case 'ui/request-display-mode':
                return { mode: params.mode };
            case 'ui/open-link':
            case 'ui/message':
            case 'ui/update-model-context':
                return {};
            default:
                throw { code: -32601, message: `unknown method ${method}` };
        }
    }

    notify(method, params) {
        return this.send({ jsonrpc: '2.0', method, params });
    }

    /** Sends a request to the app and waits for its reply. */
    async request(method, params) {
        const id = `host-${++this.lastId}`;
        const reply = new Promise(resolve => this.replies.set(id, resolve));
        await this.send({ jsonrpc: '2.0', id, method, params });
        return await reply;
    }

    /** Waits for the first message of the app with this method. */
    async until(method) {
        for (;;) {
            const found = this.received.find(message => message.method === method);
            if (found) return found.params;
            await new Promise(resolve => this.waiting.push(resolve));
        }
    }
}

const client = await connect({ [APPS]: { mimeTypes: [MIME] } });
assert.deepEqual(client.getServerCapabilities().extensions[APPS], {});
const { tools } = await client.listTools();
const uri = tools.find(tool => tool.name === TOOL)._meta.ui.resourceUri;
const { contents: [page] } = await client.readResource({ uri });
assert.equal(page.mimeType, MIME);
assert.ok(!page.text.includes('src="wharf-app.js"'), 'the script is not in the page');
const listed = (await client.listResources()).resources.find(resource => resource.uri === uri);
assert.deepEqual(page._meta.ui, { prefersBorder: true });
assert.deepEqual(listed._meta.ui, page._meta.ui);

const input = { total: 90, people: 3 };
const result = await client.callTool({ name: TOOL, arguments: input });
const plain = await connect({});
const fallback = await plain.callTool({ name: TOOL, arguments: input });
assert.match(result.content[0].text, /The user sees the bill/);
assert.equal(fallback.content[0].text, '3 people pay 30.00 each, 90.00 in total.');
await plain.close();

const [hostSite, proxySite] = [await site(), await site()];
hostSite.page = HOST_PAGE(proxySite.origin);
proxySite.page = PROXY_PAGE(hostSite.origin);
proxySite.headers = { 'content-security-policy': policy(page._meta.ui.csp) };

/** Opens a host with an app; returns the host, the frame of the app, and the errors that the browser reports. */
async function open(browser, html) {
    const complaints = [];
    const complain = text => {
        console.log(text);
        complaints.push(text);
    };
    const tab = await browser.newPage();
    tab.on('console', message => message.type() === 'error' && complain(`console: ${message.text()}`));
    tab.on('pageerror', error => complain(`page: ${error.stack}`));
    await tab.exposeFunction('violated', text => complain(`policy: ${text}`));
    await tab.addInitScript(() => addEventListener('securitypolicyviolation', event =>
        window.violated(`${event.violatedDirective} ${event.blockedURI}`)));
    const host = new Host(client, tools, message => tab.evaluate(it => window.toApp(it), message), html);
    await tab.exposeFunction('fromApp', message => host.receive(message));
    await tab.goto(hostSite.origin);
    await host.until('ui/notifications/initialized');
    return { host, complaints, frame: tab.frames().find(frame => frame.parentFrame()?.parentFrame()) };
}

/** The app of the demo server. */
async function demo({ host, frame, complaints }) {
    const initialize = await host.until('ui/initialize');
    assert.deepEqual(initialize, {
        appInfo: { name: 'bill', version: '1.0.0' },
        appCapabilities: { availableDisplayModes: ['inline'] },
        protocolVersion: '2026-01-26',
    });
    assert.equal(await frame.evaluate(() => self.origin), 'null', 'the origin of the app is opaque');
    assert.equal(await frame.evaluate(() => document.documentElement.dataset.theme), 'dark');
    assert.equal(await frame.evaluate(() => getComputedStyle(document.body).color), 'rgb(1, 2, 3)');
    const { width, height } = await host.until('ui/notifications/size-changed');
    assert.ok(width > 0 && height > 0, `size ${width} × ${height}`);

    const value = id => frame.locator(`#${id}`).inputValue();
    await host.notify('ui/notifications/tool-input-partial', { arguments: { total: 9 } });
    await frame.waitForFunction(() => document.getElementById('total').value === '9');
    await host.notify('ui/notifications/tool-input', { arguments: input });
    await host.notify('ui/notifications/tool-result', result);
    await frame.getByText('30.00 each').waitFor();
    assert.deepEqual([await value('total'), await value('people')], ['90', '3']);

    await frame.getByLabel('People').fill('4');
    await frame.getByRole('button', { name: 'Split' }).click();
    await frame.getByText('22.50 each').waitFor();
    assert.deepEqual(await host.until('ui/update-model-context'), { structuredContent: { total: 90, people: 4 } });

    const failure = action => frame.evaluate(action).then(() => assert.fail('it succeeded'), error => error.message);
    assert.match(await failure(() => wharf.callTool('pay_share', { amount: 1 })), /tools\/call pay_share failed: the app may not call pay_share \(-32000\)/);
    assert.equal((await client.callTool({ name: 'pay_share', arguments: { amount: 1 } })).content[0].text, 'paid 1.00');
    const wrong = await frame.evaluate(() => wharf.callTool('split_bill', { total: 1, people: 0 }));
    assert.equal(wrong.isError, true);

    assert.equal(await frame.evaluate(() => wharf.requestDisplayMode('fullscreen')), 'fullscreen');
    assert.match(await failure(() => wharf.requestDisplayMode('pip')), /no display mode pip: the host has inline,fullscreen/);
    await frame.evaluate(() => wharf.sendMessage('Please pay.'));
    assert.deepEqual(await host.until('ui/message'), { role: 'user', content: [{ type: 'text', text: 'Please pay.' }] });
    await frame.evaluate(() => wharf.openLink('https://example.com/'));
    assert.deepEqual(await host.until('ui/open-link'), { url: 'https://example.com/' });
    const read = await frame.evaluate(() => wharf.readResource('demo://notes/standup'));
    assert.equal(read.contents[0].text, 'Note standup');
    await frame.evaluate(() => wharf.log('info', 'hello'));
    assert.deepEqual(await host.until('notifications/message'), { level: 'info', data: 'hello' });

    await host.notify('ui/notifications/host-context-changed', { theme: 'light' });
    await frame.waitForFunction(() => wharf.context.theme === 'light' && document.documentElement.dataset.theme === 'light');
    assert.equal(await frame.evaluate(() => wharf.context.displayMode), 'inline', 'other fields of the context stay');
    await host.notify('ui/notifications/tool-cancelled', { reason: 'changed my mind' });
    assert.deepEqual((await host.request('ping')).result, {});
    assert.deepEqual((await host.request('acme/unknown', {})).error, { code: -32601, message: 'the app has no acme/unknown' });
    assert.deepEqual((await host.request('ui/resource-teardown', { reason: 'closed' })).result, {});

    assert.deepEqual(complaints, []);
    // The checks above see nothing only if this is seen: the policy blocks the network, and the browser reports it.
    await frame.evaluate(() => fetch('https://example.com/').catch(() => {}));
    while (!complaints.some(it => it.startsWith('policy: connect-src'))) await pause(5);
}

/** A page that records what its handlers receive, with the script of the library. */
const PROBE = `<!doctype html><title>probe</title><script type="module">${
    page.text.split('<script type="module">')[1]
}<script type="module">
    window.seen = [];
    const record = name => value => void seen.push([name, value]);
    const handlers = ['onInput', 'onPartialInput', 'onResult', 'onCancelled', 'onContext'];
    await wharf.connect({
        name: 'probe', version: '2.0.0', displayModes: ['inline', 'pip'], autoResize: false,
        ...Object.fromEntries(handlers.map(name => [name, record(name)])),
        async onTeardown(reason) {
            await new Promise(resolve => setTimeout(resolve));
            record('onTeardown')(reason);
            if (reason === 'unsaved') throw new Error('not saved');
        },
    });
</script>`;

async function probe({ host, frame, complaints }) {
    const { appInfo, appCapabilities } = await host.until('ui/initialize');
    assert.deepEqual(appInfo, { name: 'probe', version: '2.0.0' });
    assert.deepEqual(appCapabilities, { availableDisplayModes: ['inline', 'pip'] });
    await host.notify('ui/notifications/tool-input-partial', {});
    await host.notify('ui/notifications/tool-input', { arguments: input });
    await host.notify('ui/notifications/tool-result', result);
    await host.notify('ui/notifications/tool-cancelled', { reason: 'changed my mind' });
    await host.notify('ui/notifications/host-context-changed', { locale: 'br' });
    assert.deepEqual((await host.request('ui/resource-teardown', { reason: 'closed' })).result, {});
    assert.deepEqual(await frame.evaluate(() => window.seen), [
        ['onPartialInput', {}], ['onInput', input], ['onResult', result], ['onCancelled', 'changed my mind'],
        ['onContext', { locale: 'br' }], ['onTeardown', 'closed'],
    ]);
    assert.ok(!host.received.some(message => message.method === 'ui/notifications/size-changed'), 'autoResize is off');
    assert.deepEqual(complaints, []);
    const refused = await host.request('ui/resource-teardown', { reason: 'unsaved' });
    assert.deepEqual(refused.error, { code: -32000, message: 'Error: not saved' });
    while (!complaints.some(it => it.startsWith('console: wharf: onTeardown failed: Error: not saved'))) await pause(5);
}

const profile = mkdtempSync(join(tmpdir(), 'wharf-chromium-'));
const browser = await chromium.launchPersistentContext(profile, BROWSER);
try {
    await demo(await open(browser, page.text));
    await probe(await open(browser, PROBE));
} finally {
    await browser.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    hostSite.close();
    proxySite.close();
    await client.close();
}
console.log('ok');
process.exit(0);
