// Skills server of npm `@modelcontextprotocol/server`.
// usage: node ts2_skills.mjs [--http]
import { load } from '../packages.mjs';
import { serve } from './ts2_serve.mjs';

const { McpServer } = load('@modelcontextprotocol/server');
const { SkillsExtension, memorySkillFiles } = load('@modelcontextprotocol/server/ext/skills');

const refunds = `---
name: refunds
description: "Refunds: when and how"
license: MIT
metadata:
  version: "1.0"
  since: "2026-01-01"
---
# Refunds

See [the letter](letters/Q&A%20(1).md).
`;
// A byte order mark and line ends of Windows, which the digest includes.
const opening = '\uFEFF---\r\nname: opening\r\ndescription: Opens the shop\r\n---\r\n# Opening\r\n';
const many = Object.fromEntries(Array.from({ length: 120 }, (_, at) => {
    const name = `skill-${String(at).padStart(3, '0')}`;
    return [`many/${name}/SKILL.md`, `---\nname: ${name}\ndescription: Number ${at}\n---\n`];
}));

const files = memorySkillFiles({
    'refunds/SKILL.md': refunds,
    'refunds/letters/Q&A (1).md': 'Dear customer,\n',
    'refunds/letters/old/2025.md': 'Dear Sir or Madam,\n',
    'refunds/logo.bin': Uint8Array.of(0, 255, 128, 10),
    'opening/SKILL.md': opening,
    ...many,
});
const catalog = await SkillsExtension.load(files, { prefix: 'shop' });

serve(() => {
    const server = new McpServer(
        { name: 'foreign-typescript2-skills', version: '1.0.0' },
        { capabilities: { resources: {} } },
    );
    catalog.attach(server);
    return server;
});
