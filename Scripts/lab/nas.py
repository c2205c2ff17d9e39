"""The NAS of the stories: an HTTP server on 192.0.2.1 that appends what is put there to the file that is named."""
import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        with open(sys.argv[1], "ab") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(201)
        self.end_headers()


server = http.server.HTTPServer(("192.0.2.1", 8080), Handler)
print("ready", flush=True)
server.serve_forever()
