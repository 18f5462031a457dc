// Schemas of tools with npm `@modelcontextprotocol/client`, which validates every result against its output schema.
import assert from 'node:assert/strict';
import { args, command, era, load, over, url } from './target.mjs';

const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');

const transport = over === 'stdio' ? new StdioClientTransport({ command, args }) : new StreamableHTTPClientTransport(url);
const mode = era === 'modern' ? 'auto' : 'legacy';
const client = new Client({ name: 'foreign-schemas', version: '1.0.0' }, { versionNegotiation: { mode } });
await client.connect(transport);

const tools = new Map((await client.listTools()).tools.map(tool => [tool.name, tool]));
const schema = name => tools.get(name).outputSchema;

const checks = {
    'input schemas': () => {
        const { type, required, properties } = tools.get('weather').inputSchema;
        assert.deepEqual([type, required, properties.city.type], ['object', ['city'], 'string']);
    },
    'an object': async () => {
        assert.equal(schema('weather').type, 'object');
        const { structuredContent } = await client.callTool({ name: 'weather', arguments: { city: 'Oslo' } });
        assert.deepEqual(structuredContent, { city: 'Oslo', celsius: 21.5, sky: 'clear' });
    },
    'a list': async () => {
        const result = await client.callTool({ name: 'forecast', arguments: { city: 'Oslo' } });
        const days = [22, 22.5].map(celsius => ({ city: 'Oslo', celsius, sky: 'clear' }));
        const text = result.content.find(item => item.type === 'text')?.text;
        assert.deepEqual(JSON.parse(text), days);
        if (era === 'modern') {
            assert.equal(schema('forecast').type, 'array');
            assert.deepEqual(result.structuredContent, days);
            return;
        }
        // Revisions with a handshake support only objects.
        const { type, properties, required } = schema('forecast');
        assert.deepEqual([type, properties.result.type, required], ['object', 'array', ['result']]);
        assert.deepEqual(result.structuredContent, { result: days });
    },
    'no output schema': async () => {
        assert.equal(schema('echo'), undefined);
        const { structuredContent } = await client.callTool({ name: 'echo', arguments: { text: 'hi' } });
        assert.equal(structuredContent, undefined);
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
await client.close();
process.exit(failed ? 1 : 0);
