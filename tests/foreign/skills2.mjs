// npm `@modelcontextprotocol/client`, `SkillsClient`: lists, loads and verifies the skills of `conformance/skills` and of
// `crates/wharf-cli/tests/skills`, with its own reader of front matter and with the YAML parser of the official suite.
import assert from 'node:assert/strict';
import { args, command, era, load, over, url } from './target.mjs';

const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');
const { SkillsClient, SkillVerificationError } = load('@modelcontextprotocol/client/ext/skills');
const { parse } = load('yaml');

const transport = over === 'stdio' ? new StdioClientTransport({ command, args }) : new StreamableHTTPClientTransport(url);
const mode = era === 'modern' ? 'auto' : 'legacy';
const client = new Client({ name: 'foreign-skills2', version: '1.0.0' }, { versionNegotiation: { mode } });
await client.connect(transport);

try {
    for (const options of [{}, { parseFrontmatter: text => parse(text) }]) {
        await visit(new SkillsClient(client, options));
    }
} finally {
    await client.close();
}

async function visit(skills) {
    assert(skills.supported && skills.directoryRead);
    const { skills: listed, invalid, ttlMs, cacheScope } = await skills.list();
    assert.deepEqual(invalid, []);
    assert.deepEqual(
        listed.map(it => it.uri),
        [
            'skill://acme/billing/refunds/SKILL.md',
            'skill://git-workflow/SKILL.md',
            'skill://pdf-processing/SKILL.md',
            'skill://yaml-types/SKILL.md',
        ],
    );
    assert.equal(ttlMs !== undefined && cacheScope !== undefined, era === 'modern');
    for (const skill of listed) {
        const loaded = await skills.read(skill);
        assert(loaded.verified && loaded.body.startsWith('# '));
        for (const file of skill.resources) assert((await skills.read(skill, file.uri)).verified);
        assert.deepEqual((await skills.get(skill.uri)).skill, skill);
    }
    const pdf = listed.at(2);
    assert.equal((await skills.read(pdf, 'references/FORMS.md')).mimeType, 'text/markdown');
    await assert.rejects(skills.read(pdf, 'references/OTHER.md'), SkillVerificationError);
    const { resources } = await skills.readDirectory('skill://pdf-processing/templates');
    assert.deepEqual(
        resources.map(({ name, mimeType }) => [name, mimeType]),
        [['invoice.md', 'text/markdown'], ['regional', 'inode/directory']],
    );
    for (const wrong of ['skill://pdf-processing/SKILL.md', 'skill://pdf-processing/', 'skill://none']) {
        await assert.rejects(skills.readDirectory(wrong), { code: -32602 });
    }
    await assert.rejects(skills.get('skill://none/SKILL.md'), { code: -32602 });
}
