# forge-proxy with the embedded llama.cpp. The image runs as a user of its own and writes nothing.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md ./
COPY forge_proxy ./forge_proxy
RUN python -m venv /opt/forge && /opt/forge/bin/pip install --no-cache-dir '.[embedded]'

FROM python:3.12-slim
# llama.cpp uses OpenMP
RUN apt-get update && apt-get install --no-install-recommends -y libgomp1 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --no-create-home forge
COPY --from=build /opt/forge /opt/forge
ENV PATH=/opt/forge/bin:$PATH PYTHONUNBUFFERED=1
USER forge
EXPOSE 8081
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/readyz', timeout=4)"]
ENTRYPOINT ["forge-proxy"]
# All of the container's addresses: so it wants keys, -e FORGE_PROXY_SERVER__API_KEYS=..., or to be told that none are
# needed, as compose.yaml does, which publishes the port on 127.0.0.1.
CMD ["serve", "--host", "0.0.0.0"]
