// TCP proxy whose connections can be cut.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/** TCP proxy to `url` that cuts its connections when the server sends each of `marks` in turn. */
export async function proxyTo(url, marks = []) {
    const sockets = new Set();
    const proxy = {
        cuts: 0,
        /** Cuts all connections now. */
        cut() {
            proxy.cuts += 1;
            for (const socket of sockets) socket.destroy();
        },
        /** Cuts all connections and waits for the next one. */
        async cutAndWait() {
            proxy.cut();
            await once(server, 'connection');
        },
    };
    const server = createServer(client => {
        const upstream = connect(url.port, url.hostname);
        for (const [socket, other] of [[client, upstream], [upstream, client]]) {
            sockets.add(socket);
            socket.on('error', () => {});
            socket.on('close', () => (sockets.delete(socket), other.end()));
        }
        client.on('data', chunk => upstream.write(chunk));
        upstream.on('data', chunk => {
            const at = proxy.cuts < marks.length ? chunk.indexOf(marks[proxy.cuts]) : -1;
            if (at < 0) return client.write(chunk);
            client.write(chunk.subarray(0, at), () => proxy.cut());
        });
    });
    server.listen(0, url.hostname);
    await once(server, 'listening');
    proxy.url = new URL(url);
    proxy.url.port = server.address().port;
    return proxy;
}
