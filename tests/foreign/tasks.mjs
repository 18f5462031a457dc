// Shared code of the task drivers: named and timed checks, and the exit of the process.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

const CHECK_MS = 20_000;

export const failure = promise => promise.then(() => assert.fail('it succeeded'), error => error);

/** Polls `look` until it returns a value; the timeout of the check ends it otherwise. */
export async function until(look) {
    for (;;) {
        const seen = await look();
        if (seen) return seen;
        await pause(20);
    }
}

/** Runs the checks in sequence, then `close`; exits with 1 if a check failed. */
export async function run(checks, close) {
    let failed = 0;
    for (const [name, body] of Object.entries({ ...checks, close })) {
        const late = pause(CHECK_MS, undefined, { ref: false }).then(() => assert.fail(`no answer in ${CHECK_MS} ms`));
        try {
            await Promise.race([body(), late]);
            console.log(`ok ${name}`);
        } catch (error) {
            failed += 1;
            console.log(`FAIL ${name}: ${String(error.stack ?? error)}`);
        }
    }
    process.exit(failed ? 1 : 0);
}
