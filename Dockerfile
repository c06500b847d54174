# forge-proxy and the embedded llama.cpp, run by a user of its own who can write nothing but what is to be kept.
# PYTHON_IMAGE may be any Debian or Ubuntu with Python 3.11 or newer, its venv module and CA certificates.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
# Another package index than pip's own; left out where it is not given.
ARG PIP_INDEX_URL
WORKDIR /src
RUN apt-get update && apt-get install --no-install-recommends -y binutils
# pip stays in a venv of its own, which is left behind with this stage.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/forge
# The dependencies by themselves: they stay as they are while the code changes. Without its symbols llama.cpp is 26 MB
# in place of 106.
COPY pyproject.toml ./
RUN mkdir forge_proxy && touch README.md LICENSE forge_proxy/__init__.py \
  && echo '__version__ = "0"' > forge_proxy/_version.py \
  && /opt/pip/bin/pip --python /opt/forge install --no-cache-dir '.[embedded,postgres]' \
  && find /opt/forge -name '*.so' -exec strip --strip-unneeded {} +
COPY README.md LICENSE ./
COPY forge_proxy ./forge_proxy
RUN /opt/pip/bin/pip --python /opt/forge install --no-cache-dir --no-deps .

FROM ${PYTHON_IMAGE}
# llama.cpp uses OpenMP
RUN apt-get update && apt-get install --no-install-recommends -y libgomp1 \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin forge
COPY --from=build /opt/forge /opt/forge
COPY docker/llama-server docker/answers /app/
ENV PATH=/opt/forge/bin:$PATH
# Compiles what it uses of Python itself: the official images come without that, and later nobody may write it.
RUN python3 -c 'import argparse, forge_proxy.cli.app, forge_proxy.daemon'
# Runs, and what was found out about models. A new volume that is mounted here is this user's, as the folder is.
RUN install -d -o 10001 -g 10001 -m 700 /state/forge-proxy
ENV XDG_STATE_HOME=/state
# A number: Kubernetes cannot tell from a name that it is not root.
USER 10001
EXPOSE 8081
# Until the model server has loaded its model, a request would not be answered: that may take minutes.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m CMD ["/app/answers", "8081", "/readyz"]
ENTRYPOINT ["forge-proxy"]
# All of the container's addresses: so it wants keys, -e FORGE_PROXY_SERVER__API_KEYS=..., or to be told that none are
# needed, as compose.yaml does, which publishes the port on 127.0.0.1.
CMD ["serve", "--host", "0.0.0.0"]
