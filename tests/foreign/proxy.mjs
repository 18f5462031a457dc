// A TCP proxy whose connections can be cut.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export async function proxyTo(url) {
    const sockets = new Set();
    let armed = false;
    const proxy = {
        cuts: 0,
        /** Cuts every connection, now. */
        cut() {
            proxy.cuts += 1;
            for (const socket of sockets) socket.destroy();
        },
        /** Cuts in the middle of the next thing that the server sends. */
        cutNext() {
            armed = true;
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
            if (!armed) return client.write(chunk);
            armed = false;
            client.write(chunk.subarray(0, chunk.length / 2), () => proxy.cut());
        });
    });
    server.listen(0, url.hostname);
    await once(server, 'listening');
    proxy.url = new URL(url);
    proxy.url.port = server.address().port;
    return proxy;
}
